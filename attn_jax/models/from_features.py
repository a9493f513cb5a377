"""Probabilities of words from one vector of features for each step, as of most readouts."""

from flax import nnx
from jaxtyping import Array, Float, Int

from attn_jax.models.embeddings import Separate
from attn_jax.models.source import Source
from attn_jax.tokens import PAD


class FromFeatures(nnx.Module):
    """What readouts have in common whose result is all that the output layer reads.

    See `protocols.Readout`. The weights of attention stay as they are, and nothing is carried from
    step to step.
    """

    def start(self, source: Source) -> tuple[()]:
        """Nothing is carried."""
        return ()

    def step(
        self,
        words: Separate,
        carried: tuple[()],
        word: Int[Array, " B"],
        source: Source,
        steps: Float[Array, "B F"],
        weights: Float[Array, "B L N S"],
    ) -> tuple[tuple[()], Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The log-probabilities of the next word."""
        return carried, words.log_probabilities(steps), weights

    def read(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Float[Array, "B T F"],
        weights: Float[Array, "B L N T S"],
    ) -> tuple[Float[Array, "B T F"], Float[Array, "B L N T S"]]:
        """The features and the weights."""
        return steps, weights

    def log_probabilities(
        self, words: Separate, source: Source, steps: Float[Array, "B *T F"]
    ) -> Float[Array, "B *T V"]:
        """The log-probabilities of all words, in nats."""
        return words.log_probabilities(steps)

    def loss(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Float[Array, "B T F"],
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """The sum of the cross-entropies of the target tokens, in nats."""
        return words.loss(steps, target, target != PAD, label_smoothing)
