"""Encoders: from word vectors to annotations, and the summary that starts the decoder."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attn_jax.errors import InputError
from attn_jax.models.recurrent import GRU, unroll


class Unidirectional(nnx.Module):
    """A GRU from left to right. The summary is its last state.

    Cho et al. 2014, section 2.1.
    """

    def __init__(self, embedding_size: int, annotation_size: int, *, rngs: nnx.Rngs):
        self.summary_size = annotation_size
        self.forward = GRU(embedding_size, annotation_size, rngs=rngs)

    def __call__(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        initial = jnp.zeros((mask.shape[0], self.summary_size), embeddings.dtype)
        annotations = unroll(self.forward, self.forward.input(embeddings), mask, initial)
        return annotations, annotations[:, -1]


class Bidirectional(nnx.Module):
    """A GRU in each direction, h_j = [→h_j; ←h_j]. The summary is ←h_1.

    Bahdanau, Cho and Bengio 2014, section 3.2 and appendix A.2.1.

    Raises:
      InputError: the annotation's features cannot be halved.
    """

    def __init__(self, embedding_size: int, annotation_size: int, *, rngs: nnx.Rngs):
        if annotation_size % 2:
            raise InputError(
                "a bidirectional encoder gives half of an annotation to each direction: "
                f"--model.annotation_size must be even, got {annotation_size}"
            )
        self.summary_size = annotation_size // 2
        self.forward = GRU(embedding_size, self.summary_size, rngs=rngs)
        self.backward = GRU(embedding_size, self.summary_size, rngs=rngs)

    def __call__(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        initial = jnp.zeros((mask.shape[0], self.summary_size), embeddings.dtype)
        forward = unroll(self.forward, self.forward.input(embeddings), mask, initial)
        backward = unroll(
            self.backward, self.backward.input(embeddings), mask, initial, reverse=True
        )
        return jnp.concatenate([forward, backward], axis=-1), backward[:, 0]


ENCODERS: dict[str, type[nnx.Module]] = {
    "bidirectional": Bidirectional,
    "unidirectional": Unidirectional,
}
