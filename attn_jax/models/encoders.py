"""Encoders: from word vectors to annotations, and the summary that starts the decoder."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models.recurrent import CELLS, unroll
from attn_jax.models.stacks import STACKS, ResidualStack


class Forward(nnx.Module):
    """One layer from left to right. Its summary is its last state.

    Cho et al. 2014, section 2.1.
    """

    def __init__(self, cell: type[nnx.Module], features: int, units: int, *, rngs: nnx.Rngs):
        self.summary_size = units
        self.forward = cell(features, units, rngs=rngs)

    def __call__(
        self, inputs: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        annotations = run(self.forward, inputs, mask)
        return annotations, annotations[:, -1]


class BothWays(nnx.Module):
    """One layer in each direction, h_j = [→h_j; ←h_j]. Its summary is ←h_1.

    Bahdanau, Cho and Bengio 2014, section 3.2 and appendix A.2.1.

    Raises:
      InputError: the annotation's features cannot be halved.
    """

    def __init__(self, cell: type[nnx.Module], features: int, units: int, *, rngs: nnx.Rngs):
        if units % 2:
            raise InputError(
                "a bidirectional encoder gives half of an annotation to each direction: "
                f"--model.annotation_size must be even, got {units}"
            )
        self.summary_size = units // 2
        self.forward = cell(features, self.summary_size, rngs=rngs)
        self.backward = cell(features, self.summary_size, rngs=rngs)

    def __call__(
        self, inputs: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        forward = run(self.forward, inputs, mask)
        backward = run(self.backward, inputs, mask, reverse=True)
        return jnp.concatenate([forward, backward], axis=-1), backward[:, 0]


def run(
    cell: nnx.Module,
    inputs: Float[Array, "B S E"],
    mask: Bool[Array, "B S"],
    *,
    reverse: bool = False,
) -> Float[Array, "B S H"]:
    """What a cell shows over whole sentences, from a state of zeros."""
    units = cell.recurrent.in_features
    initial = cell.begin(jnp.zeros((mask.shape[0], units), inputs.dtype))
    return unroll(cell, cell.input(inputs), mask, initial, reverse=reverse)


LAYERS: dict[str, type[nnx.Module]] = {"bidirectional": BothWays, "unidirectional": Forward}


class Encoder(nnx.Module):
    """Recurrent layers, each over the annotations of the one below.

    The summary is that of the highest layer.
    """

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        layer = choose(LAYERS, config.encoder, "encoder")
        cell = choose(CELLS, config.cell, "cell")
        self.adds = choose(STACKS, config.stack, "stack") is ResidualStack
        size = config.annotation_size
        sizes = [config.embedding_size] + [size] * (config.encoder_layers - 1)
        self.layers = nnx.List([layer(cell, features, size, rngs=rngs) for features in sizes])
        self.summary_size = self.layers[-1].summary_size

    def __call__(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> tuple[Float[Array, "B S D"], Float[Array, "B Z"]]:
        """The annotations and the summary."""
        first, *above = self.layers
        annotations, summary = first(embeddings, mask)
        for layer in above:
            below = annotations
            annotations, summary = layer(below, mask)
            if self.adds:
                annotations = annotations + below
        return annotations, summary
