"""Recurrent encoders: from word vectors to annotations, and to a summary that starts a decoder."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models import stacks
from attn_jax.models.dropout import make_dropout
from attn_jax.models.protocols import Summary
from attn_jax.models.randomness import split, split_stacked
from attn_jax.models.stacks import STACKS, Stack


class Forward(nnx.Module):
    """One layer from left to right. Its summary is its last state.

    Cho et al. 2014, section 2.1.
    """

    reverse = False

    def __init__(self, config: Model, features: int, *, rngs: nnx.Rngs):
        self.summary_size = config.annotation_size
        self.cell = Stack(config, features, self.summary_size, 1, rngs=rngs)

    def __call__(
        self, inputs: Float[Array, "B S E"], mask: Bool[Array, "B S"], rng: Key[Array, " B"] | None
    ) -> tuple[Float[Array, "B S D"], Summary]:
        """The annotations and the summary."""
        return run(self.cell, inputs, mask, rng, reverse=self.reverse)


class Backward(Forward):
    """One layer from right to left: the reversed source of Sutskever, Vinyals and Le 2014, 3.3.

    The annotations stay in the order of the words.
    """

    reverse = True


class Bidirectional(nnx.Module):
    """One layer in each direction, h_j = [→h_j; ←h_j]. Its summary is ←h_1.

    Bahdanau, Cho and Bengio 2014, section 3.2 and appendix A.2.1.

    Raises:
      InputError: the number of features of an annotation is odd.
    """

    def __init__(self, config: Model, features: int, *, rngs: nnx.Rngs):
        if config.annotation_size % 2:
            raise InputError(
                "a bidirectional encoder gives half of an annotation to each direction: "
                f"model.annotation_size must be even, got {config.annotation_size}"
            )
        self.summary_size = config.annotation_size // 2
        self.forward = Stack(config, features, self.summary_size, 1, rngs=rngs)
        self.backward = Stack(config, features, self.summary_size, 1, rngs=rngs)

    def __call__(
        self, inputs: Float[Array, "B S E"], mask: Bool[Array, "B S"], rng: Key[Array, " B"] | None
    ) -> tuple[Float[Array, "B S D"], Summary]:
        """The annotations and the summary."""

        def there_and_back(sentences: Array) -> Array:
            return jnp.stack([sentences, sentences[:, ::-1]])

        # Both directions share one scan, so that their products at each step run side by side.
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), self.forward, self.backward)
        rngs = split_stacked(rng, 2)
        (forward, backward), summary = jax.vmap(run)(
            both, there_and_back(inputs), there_and_back(mask), rngs
        )
        annotations = jnp.concatenate([forward, backward[:, ::-1]], axis=-1)
        return annotations, Summary(summary.vector[1], ())


def run(
    cell: Stack,
    inputs: Float[Array, "B S E"],
    mask: Bool[Array, "B S"],
    rng: Key[Array, " B"] | None,
    *,
    reverse: bool = False,
) -> tuple[Float[Array, "B S H"], Summary]:
    """The outputs of a cell over whole sentences, from a state of zeros, and its summary."""
    initial = cell.begin(jnp.zeros((mask.shape[0], cell.units), inputs.dtype))
    last, annotations = cell.unroll(inputs, mask, initial, rng, reverse=reverse)
    return annotations, Summary(cell.output(last), last)


LAYERS: dict[str, type[Forward | Bidirectional]] = {
    "bidirectional": Bidirectional,
    "unidirectional": Forward,
    "backward": Backward,
}


class RecurrentEncoder(nnx.Module):
    """Recurrent layers, each over the annotations of the one below.

    With residual connections, the layers above the first add their inputs to their annotations. The
    summary has the vector of the highest layer and the last states of all layers.
    """

    options = stacks.OPTIONS | {"embedding_size", "annotation_size", "encoder_layers"}

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        layer = choose(LAYERS, config.encoder, "encoder")
        self.residual = choose(STACKS, config.stack, "stack").residual
        self.dropout = make_dropout(config)
        sizes = [config.embedding_size] + [config.annotation_size] * (config.encoder_layers - 1)
        self.layers = nnx.List([layer(config, features, rngs=rngs) for features in sizes])
        self.summary_size = self.layers[-1].summary_size

    def __call__(
        self,
        embeddings: Float[Array, "B S E"],
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B S D"], Summary]:
        """The annotations and the summary. `rng` turns dropout on."""
        below, summaries = embeddings, []
        rngs = split(rng, len(self.layers))
        for number, (layer, rng_layer) in enumerate(zip(self.layers, rngs, strict=True)):
            rng_inputs, rng_steps = split(rng_layer, 2)
            annotations, summary = layer(self.dropout(below, rng_inputs), mask, rng_steps)
            summaries.append(summary)
            below = annotations + below if self.residual and number else annotations
        states = tuple(state for summary in summaries for state in summary.states)
        return below, Summary(summaries[-1].vector, states)
