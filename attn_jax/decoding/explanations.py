"""How predictions of known targets change if attention looks elsewhere, compiled."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.decoding.ensemble import Models
from attn_jax.decoding.forced import force
from attn_jax.models.seq2seq import Seq2Seq, with_uniform_weights
from attn_jax.tokens import BOS, PAD, Copyable, ids_of

SEED = 0  # of the positions that are drawn


class Explained(NamedTuple):
    """Predictions of given targets, and of what they depend: of a batch B, or of one sentence.

    The log-probabilities, in nats, are those of each target word, `EOS` included; 0 for padding.
    Hidden from one step of attention, a position has no weight there in any layer and head; the
    states before the step are as they are.
    """

    log_probabilities: Float[Array, "*B T"]
    without_most: Float[Array, "*B T"]  # if the position with the largest weight is hidden
    without_random: Float[Array, "*B T"]  # if any other one is; NaN if there is none
    uniform: Float[Array, "*B T"]  # if all weights of all steps are equal
    weights: Float[Array, "*B T S"]  # the mean over layers and heads
    importance: Float[Array, "*B T S"]  # |gradient × input| of the vector of each source word


@functools.partial(jax.jit, static_argnames="combination")
def explain(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> Explained:
    """Explains the predictions of one model of one source, which attends."""
    (model,) = models
    flat = with_uniform_weights(model)
    uniform = force((flat,), source, target, combination=combination).log_probabilities
    found, weights = _without(model, source, target)
    real = target != PAD
    usual, without_most, without_random = (jnp.where(real, of_word, 0) for of_word in found)
    hidden = without_most, without_random
    return Explained(usual, *hidden, uniform, weights, importance(model, source, target))


def _without(
    model: Seq2Seq, source: Int[Array, "B S"] | Copyable, target: Int[Array, "B T"]
) -> tuple[list[Float[Array, "B T"]], Float[Array, "B T S"]]:
    """The first three log-probabilities of an `Explained`, and its weights."""
    encoded = model.encode(source)
    before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)
    places, others = jnp.arange(source.shape[1]), encoded.mask.sum(axis=1) - 1

    def advance(state: PyTree, inputs: tuple) -> tuple[PyTree, tuple]:
        previous, written, drawn = inputs

        def seeing(mask: Bool[Array, "B S"]) -> tuple:
            after, log_probabilities, weights = model.step(
                state, previous, encoded._replace(mask=mask)
            )
            of_word = jnp.take_along_axis(log_probabilities, written[:, None], axis=-1)[:, 0]
            return after, of_word, weights.mean(axis=(1, 2))

        def without(place: Int[Array, " B"]) -> Float[Array, " B"]:
            return seeing(encoded.mask & (places != place[:, None]))[1]

        after, of_word, weights = seeing(encoded.mask)
        most = jnp.argmax(jnp.where(encoded.mask, weights, -jnp.inf), axis=1)
        nth = jnp.floor(drawn * others).astype(int)  # of the others
        other = jnp.where(others > 0, without(nth + (nth >= most)), jnp.nan)
        return after, (of_word, without(most), other, weights)

    inputs = before.T, target.T, _drawn(ids_of(source), target.shape[1]).T
    _, (*found, weights) = jax.lax.scan(advance, model.start(encoded, target.shape[1]), inputs)
    return [of_word.T for of_word in found], jnp.swapaxes(weights, 0, 1)


def _drawn(source: Int[Array, "B S"], steps: int) -> Float[Array, "B T"]:
    """Numbers from 0 to 1 for each step, which depend on the sentence, but not on its padding."""
    sums = (source * jnp.arange(1, source.shape[1] + 1)).sum(axis=1)  # padding is 0

    def of_step(of_sentence: Int[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
        rng = jax.random.fold_in(jax.random.key(SEED), of_sentence)
        return jax.random.uniform(jax.random.fold_in(rng, step))

    over = jax.vmap(jax.vmap(of_step, (None, 0)), (0, None))
    return over(sums, jnp.arange(steps))


def importance(
    model: Seq2Seq, source: Int[Array, "B S"] | Copyable, target: Int[Array, "B T"]
) -> Float[Array, "B T S"]:
    """|gradient × input|: how much each source word adds to each target word, by its derivative.

    It is that of the log-probability of the target word, through the encoder and the weights too,
    in the direction of the vector of the source word.
    """
    vectors = model.vectors(ids_of(source))

    def at_step(step: Int[Array, ""]) -> Float[Array, "B S"]:
        written = target[:, step]

        def total(vectors: Float[Array, "B S E"]) -> Float[Array, ""]:
            reading = model.read(source, target, vectors=vectors)
            only = jax.tree.map(lambda leaf: leaf[:, step], reading.steps)
            log_probabilities = model.log_probabilities(only, reading.source)
            return jnp.take_along_axis(log_probabilities, written[:, None], axis=-1).sum()

        return jnp.abs((jax.grad(total)(vectors) * vectors).sum(axis=-1))

    # One step after another: all at once would hold as many models of the whole target.
    return jnp.swapaxes(jax.lax.map(at_step, jnp.arange(target.shape[1])), 0, 1)
