"""Encoders: from word vectors to annotations, and the summary that starts the decoder."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models.recurrent import CELLS, unroll


class Unidirectional(nnx.Module):
    """A recurrent cell from left to right. The summary is its last state.

    Cho et al. 2014, section 2.1.
    """

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        cell = choose(CELLS, config.cell, "cell")
        self.summary_size = config.annotation_size
        self.forward = cell(config.embedding_size, self.summary_size, rngs=rngs)

    def __call__(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        initial = jnp.zeros((mask.shape[0], self.summary_size), embeddings.dtype)
        cell = self.forward
        annotations = unroll(cell, cell.input(embeddings), mask, cell.begin(initial))
        return annotations, annotations[:, -1]


class Bidirectional(nnx.Module):
    """A recurrent cell in each direction, h_j = [→h_j; ←h_j]. The summary is ←h_1.

    Bahdanau, Cho and Bengio 2014, section 3.2 and appendix A.2.1.

    Raises:
      InputError: the annotation's features cannot be halved.
    """

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        cell = choose(CELLS, config.cell, "cell")
        if config.annotation_size % 2:
            raise InputError(
                "a bidirectional encoder gives half of an annotation to each direction: "
                f"--model.annotation_size must be even, got {config.annotation_size}"
            )
        self.summary_size = config.annotation_size // 2
        self.forward = cell(config.embedding_size, self.summary_size, rngs=rngs)
        self.backward = cell(config.embedding_size, self.summary_size, rngs=rngs)

    def __call__(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        initial = jnp.zeros((mask.shape[0], self.summary_size), embeddings.dtype)
        forward, backward = (
            unroll(cell, cell.input(embeddings), mask, cell.begin(initial), reverse=reverse)
            for cell, reverse in ((self.forward, False), (self.backward, True))
        )
        return jnp.concatenate([forward, backward], axis=-1), backward[:, 0]


ENCODERS: dict[str, type[nnx.Module]] = {
    "bidirectional": Bidirectional,
    "unidirectional": Unidirectional,
}
