"""Passes over known targets (forced decoding) of a padded batch of sentences, compiled."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attn_jax.decoding.ensemble import Models, all_layers, combined, stepping
from attn_jax.kernels.memory import Held, by_parts
from attn_jax.models.copying import DEAREST
from attn_jax.models.seq2seq import SelfWeights
from attn_jax.tokens import BOS, PAD, Copyable

# Known target words whose probabilities are held at once; at least those of one step of the batch.
WORDS = Held(cpu=2**8, other=2**12)


class Forced(NamedTuple):
    """Predictions of the models for given targets: of a batch B, or of one of its sentences."""

    log_probabilities: Float[Array, "*B T"]  # in nats, of each word, `EOS` included; 0 for padding
    correct: Bool[Array, "*B T"]  # whether the word is the most probable
    weights: Float[Array, "*B L N T S"]

    @property
    def alignment(self) -> Array | np.ndarray:
        """The mean of the weights over layers and heads, [*B, T, S]."""
        return self.weights.mean(axis=(-4, -3))


@functools.partial(jax.jit, static_argnames="combination")
def force(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> Forced:
    """Runs the models over known targets, each ending in `EOS`."""

    def judged(part: tuple) -> tuple[Float[Array, "B T"], Bool[Array, "B T"]]:
        steps, targets = part
        each = zip(models, steps, readings, strict=True)
        together = combined(
            combination,
            [model.log_probabilities(some, reading.source) for model, some, reading in each],
        )
        of_word = jnp.take_along_axis(together, targets[..., None], axis=-1)[..., 0]
        # A word that a model that copies cannot write costs what it costs in training.
        of_word = jnp.where(jnp.isneginf(of_word), -DEAREST, of_word)
        return of_word, together.argmax(axis=-1) == targets

    readings = [model.read(source, target) for model in models]
    # A few steps at a time, since probabilities [B, T, V] would take up most of the memory.
    steps = [reading.steps for reading in readings]
    of_word, first = by_parts(judged, (steps, target), WORDS.here() // len(target))
    real, weights = target != PAD, [reading.weights for reading in readings]
    return Forced(jnp.where(real, of_word, 0), first & real, all_layers(weights))


@functools.partial(jax.jit, static_argnames="combination")
def posterior(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> tuple[Float[Array, "B T S"], Float[Array, "B T S"]]:
    """The posterior alignment of known targets: p(a_i = j | y_i) ∝ α_ij p(y_i | a_i = j).

    The prior α is the mean of the attention weights over layers and heads, computed before the
    word is known. The likelihood is the probability of the word if step i attends to position j
    alone, after previous steps of ordinary attention. Shankar and Sarawagi 2019, section 3.

    Models that sum over alignments have a posterior of their own, p(a_i = j | y), of which the mean
    over the models is taken.

    Returns:
      The posterior, and the weight of position j in the step that attends to it alone, the minimum
      over layers and heads. Where a window or a normalizer makes this weight less than 1, the
      likelihood is not defined.
    """
    if all(model.sums_over_alignments for model in models):
        each = [model.posterior(model.read(source, target), target) for model in models]
        alignment = jnp.stack(each).mean(axis=0)
        return alignment, jnp.ones_like(alignment)
    encoded = tuple(model.encode(source) for model in models)
    before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)
    length, places = target.shape[1], jnp.arange(source.shape[1])
    step = stepping(models, combination)

    def advance(state: tuple, words: tuple) -> tuple:
        previous, written = words

        def likelihood(place: Int[Array, ""]) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
            alone = tuple(
                of_model._replace(mask=of_model.mask & (places == place)) for of_model in encoded
            )
            _, log_probabilities, weights = step(alone, state, previous)
            of_word = jnp.take_along_axis(log_probabilities, written[:, None], axis=-1)[:, 0]
            return of_word, weights[..., place].min(axis=(1, 2))

        likelihoods, alone = (leaf.T for leaf in jax.lax.map(likelihood, places))
        state, _, weights = step(encoded, state, previous)
        prior = weights.mean(axis=(1, 2))
        likelihoods = jnp.where(prior > 0, likelihoods, -jnp.inf)
        # Only ratios matter: the largest is scaled to 1, so that it does not underflow.
        largest = jnp.max(likelihoods, axis=1, keepdims=True, initial=-1e30)
        joint = prior * jnp.exp(likelihoods - largest)
        return state, (joint / jnp.maximum(joint.sum(axis=1, keepdims=True), 1e-30), alone)

    state = tuple(
        model.start(of_model, length) for model, of_model in zip(models, encoded, strict=True)
    )
    _, (alignment, alone) = jax.lax.scan(advance, state, (before.T, target.T))
    return jnp.swapaxes(alignment, 0, 1), jnp.swapaxes(alone, 0, 1)


@functools.partial(jax.jit, static_argnames="combination")
def value_sizes(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> Float[Array, "B L N 1 S"] | None:
    """The length of what each head sums of each position, the same at all steps.

    Of one model; None if it sums no values as such.
    """
    (model,) = models
    sizes = model.value_sizes(model.encode(source))
    return None if sizes is None else sizes[..., None, :]


@functools.partial(jax.jit, static_argnames="combination")
def self_attention(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> SelfWeights:
    """The weights of self-attention, with the layers of all models, if all of them have some."""
    each = zip(*(model.self_weights(source, target) for model in models), strict=True)
    return SelfWeights(*(None if None in of else all_layers(of) for of in each))


@functools.partial(jax.jit, static_argnames="combination")
def viterbi(
    models: Models,
    source: Int[Array, "B S"] | Copyable,
    target: Int[Array, "B T"],
    *,
    combination: str,
) -> Float[Array, "B T S"]:
    """1 on the most probable alignment of known targets, 0 elsewhere.

    Of one model that sums over alignments, which needs no combination.
    """
    (model,) = models
    return model.best_alignment(model.read(source, target), target)
