"""Readouts that copy source words, or translate them one by one.

Position j of the source stands for its word x_j, also if the vocabulary lacks it. So a readout that
copies gives V + S words: those of the vocabulary, and for each place of the source the one that
first stands there and is not in the vocabulary (see `Copyable`). Their probabilities sum to 1.

B sentences, S positions, T steps, F features that the output layer reads, I inputs of a readout.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree

from attn_jax.attention.mixing import Apart
from attn_jax.attention.sources import Concatenated, One
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.kernels.memory import by_parts
from attn_jax.kernels.output_loss import LOGITS
from attn_jax.models.embeddings import Separate
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW, logarithm, refuse_smoothing
from attn_jax.models.protocols import Source
from attn_jax.tokens import EOS, PAD

# What a target word costs that cannot be written, in nats: as if its probability were 1e-30.
DEAREST = 69.0


def of_first(weights: PyTree[Float[Array, "B L N *T S"]], source: Source) -> Float[Array, "B *T S"]:
    """The weights of the first source: the mean over the heads of the last layer that attends."""
    mean = jax.tree.leaves(weights)[0][:, -1].mean(axis=1)
    mask = source.first_mask
    return jnp.where(mask.reshape(len(mask), *[1] * (mean.ndim - 2), -1), mean, 0)


def over_words(
    generated: Float[Array, "B *T V"], positions: Float[Array, "B *T S"], source: Source
) -> Float[Array, "B *T V+S"]:
    """log (p(w, generated) + Σ_{j: x_j = w} p(j, copied)); -∞ of words that cannot be written.

    Args:
      generated: log p(w, generated) of all words of the vocabulary.
      positions: log p(j, copied) of all positions.
      source: the words of the positions.
    """
    size = generated.shape[-1]

    def by_word(copies: Int[Array, " S"], copied: Float[Array, "*T S"]) -> Array:
        nothing = jnp.zeros((*copied.shape[:-1], size + len(copies)))
        return nothing.at[..., copies].add(copied)

    copied = logarithm(jax.vmap(by_word)(source.copies, jnp.exp(positions)))
    of_known = jnp.logaddexp(generated, copied[..., :size])
    every = jnp.concatenate([of_known, copied[..., size:]], axis=-1)
    return jnp.where(every > LOW / 2, every, -jnp.inf)


class Copying(nnx.Module):
    """What readouts that copy have in common: p(w) = p(w, generated) + Σ_{j: x_j = w} p(j, copied).

    See `protocols.Readout`.
    """

    forms = FAST
    options: frozenset[str] = frozenset()
    copies = True
    reads_weights = True
    positional = False

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        refuse_mixed_sources(config)
        self.size = inputs

    @abc.abstractmethod
    def joint(
        self, words: Separate, steps: PyTree[Float[Array, "B ..."]]
    ) -> tuple[Float[Array, "B *T V"], Float[Array, "B *T S"]]:
        """log p(w, generated) of all words, and log p(j, copied) of all positions, in nats."""

    def start(self, source: Source) -> tuple[()]:
        """Nothing is carried."""
        return ()

    def read(
        self,
        words: Separate,
        target: Int[Array, " B *T"],
        source: Source,
        steps: PyTree[Float[Array, "B ..."]],
        weights: Float[Array, "B L N *T S"],
    ) -> tuple[PyTree[Float[Array, "B ..."]], Float[Array, "B L N *T S"]]:
        """What `joint` takes, and the weights."""
        return steps, weights

    def step(
        self,
        words: Separate,
        carried: tuple[()],
        word: Int[Array, " B"],
        source: Source,
        steps: PyTree[Float[Array, "B ..."]],
        weights: Float[Array, "B L N S"],
    ) -> tuple[tuple[()], Float[Array, "B V+S"], Float[Array, "B L N S"]]:
        """The log-probabilities of the next word."""
        steps, weights = self.read(words, word, source, steps, weights)
        return carried, self.log_probabilities(words, source, steps), weights

    def log_probabilities(
        self, words: Separate, source: Source, steps: PyTree[Float[Array, "B ..."]]
    ) -> Float[Array, "B *T V+S"]:
        """The log-probabilities of all words, in nats; -∞ of those that cannot be written."""
        return over_words(*self.joint(words, steps), source)

    def loss(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: PyTree[Float[Array, "B T ..."]],
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """The sum of -log p of the target words, in nats, each at most `DEAREST`.

        Raises:
          InputError: there is label smoothing.
        """
        refuse_smoothing("a readout that copies", label_smoothing)

        @self.forms.recomputed
        def of_part(part: tuple[PyTree, Int[Array, "B T"]]) -> Float[Array, "B T"]:
            steps, target = part
            generated, positions = self.joint(words, steps)
            known = target < generated.shape[-1]
            places = jnp.where(known, target, 0)[..., None]
            of_word = jnp.take_along_axis(generated, places, axis=-1)[..., 0]
            copied = jnp.where(source.copies[:, None] == target[..., None], positions, LOW)
            return jnp.logaddexp(jnp.where(known, of_word, LOW), jax.nn.logsumexp(copied, axis=-1))

        at_once = LOGITS.here() // (len(target) * words.target_size)
        losses = jnp.minimum(-by_parts(of_part, (steps, target), at_once), DEAREST)
        return losses.sum(where=target != PAD)


class Choice(NamedTuple):
    """What the probabilities of some steps are computed from."""

    features: Float[Array, "B *T F"]  # what the output layer reads
    generates: Float[Array, " B *T"]  # the logit of p_gen
    weights: Float[Array, "B *T S"]  # α, the mean over heads


class Pointer(Copying):
    """p(w) = (1 - p_end) Σ_{j: x_j = w} α_j: every word is one of the source.

    Paper: Vinyals, Fortunato and Jaitly 2015, section 2.3, whose outputs are positions, and which
    leaves open how a sequence ends: here p_end = σ(w · [c; s; y] + b), with the context c, the
    state s and the vector y of the previous word, as far as the decoder hands them to its readout:
    those of Luong and the Transformer hand on one vector.
    Cost: time T (S + V), in place of an output layer.
    """

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        refuse_no_distribution(config)
        super().__init__(config, 0, rngs=rngs)
        self.generates = Linear(inputs, 1, rngs=rngs)

    def __call__(self, *inputs: Float[Array, "..."]) -> Float[Array, "... I"]:
        """The concatenated inputs."""
        return jnp.concatenate(inputs, axis=-1)

    def read(
        self,
        words: Separate,
        target: Int[Array, " B *T"],
        source: Source,
        steps: Float[Array, "B *T I"],
        weights: Float[Array, "B L N *T S"],
    ) -> tuple[Choice, Float[Array, "B L N *T S"]]:
        """What `joint` takes, and the weights."""
        generates = self.generates(steps)[..., 0]
        return Choice(self._features(steps), generates, of_first(weights, source)), weights

    def _features(self, steps: Float[Array, "*any I"]) -> Float[Array, "*any F"]:
        """None: there is no output layer."""
        return steps[..., :0]

    def joint(
        self, words: Separate, steps: Choice
    ) -> tuple[Float[Array, "B *T V"], Float[Array, "B *T S"]]:
        generates = steps.generates[..., None]
        copied = jax.nn.log_sigmoid(-generates) + logarithm(steps.weights)
        return jax.nn.log_sigmoid(generates) + self._of_vocabulary(words, steps.features), copied

    def _of_vocabulary(
        self, words: Separate, features: Float[Array, "*any F"]
    ) -> Float[Array, "*any V"]:
        """log P_vocab: of the end of the sentence alone."""
        ends = jnp.arange(words.target_size) == EOS
        return jnp.broadcast_to(jnp.where(ends, 0, LOW), (*features.shape[:-1], ends.size))


class PointerGenerator(Pointer):
    """p(w) = p_gen P_vocab(w) + (1 - p_gen) Σ_{j: x_j = w} α_j.

    P_vocab = softmax(V'(V [s; c] + b) + b') and p_gen = σ(w · [c; s; y] + b), of which `Pointer`
    says what they are. Here V reads y too.

    Paper: See, Liu and Manning 2017, section 2.2, equations 8 and 9. Its coverage is the score
    `coverage` with the loss `coverage`.
    Cost: time T S more than the output layer.
    """

    options = frozenset({"readout_size"})

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        self.size = config.readout_size
        self.hidden = Linear(inputs, self.size, rngs=rngs)

    def _features(self, steps: Float[Array, "*any I"]) -> Float[Array, "*any F"]:
        return self.hidden(steps)

    def _of_vocabulary(
        self, words: Separate, features: Float[Array, "*any F"]
    ) -> Float[Array, "*any V"]:
        return words.log_probabilities(features)


class Scores(NamedTuple):
    """What the probabilities of some steps of CopyNet are computed from."""

    features: Float[Array, "B *T F"]  # s, the state
    positions: Float[Array, "B *T S"]  # ψ_c(x_j), `LOW` at padding


class OneSoftmax(Copying):
    """p(w) = (e^ψ_g(w) + Σ_{j: x_j = w} e^ψ_c(x_j)) / Z: of CopyNet, which reads what it copied.

    ψ_g(w) = v_w · W_o s is the output layer, with a bias, and ψ_c(x_j) = tanh(W_c h_j) · s; Z is
    the sum over the words of the vocabulary and over positions.

    Paper: Gu, Lu, Li and Li 2016, section 3.2, equations 4 to 8.
    Cost: time T S (D + H) more than the output layer, and the decoder reads one step after another.
    """

    def joint(
        self, words: Separate, steps: Scores
    ) -> tuple[Float[Array, "B *T V"], Float[Array, "B *T S"]]:
        both = jnp.concatenate([words.logits(steps.features), steps.positions], axis=-1)
        normalized = jax.nn.log_softmax(both)
        return normalized[..., : words.target_size], normalized[..., words.target_size :]


def refuse_mixed_sources(config: Model) -> None:
    """Raises InputError if the first of two sources is not attended to by itself."""
    if not isinstance(config.sources, One | Concatenated):
        raise InputError(
            f"model.readout={config.readout} reads the words of the first source, which "
            f"model.sources={config.sources.brief()} mixes with the second: give "
            "model.sources=concatenated"
        )


def refuse_no_distribution(config: Model) -> None:
    """Raises InputError if the weights are no probabilities of positions of the first source."""
    refuse_mixed_sources(config)
    mechanism: Any = config.mechanism
    if config.score.is_control:
        raise InputError(
            f"model.readout={config.readout} needs attention: the weights of "
            f"model.score={config.score.brief()} do not show which word to copy"
        )
    if not mechanism.sums_to_one or not isinstance(config.mixing, Apart):
        named = ", ".join(part.word for part in (*mechanism, config.mixing) if part.word)
        raise InputError(
            f"model.readout={config.readout} copies with the weights of attention, which must be "
            f"probabilities: those of {named} need not sum to 1"
        )
