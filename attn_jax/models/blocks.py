"""The sublayers of Transformer blocks, each with its residual connection.

Vaswani et al. 2017, section 3. Cross-attention can use any mechanism.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models import dropout
from attn_jax.models.heads import LINEAR
from attn_jax.models.linear import Linear
from attn_jax.models.positions import POSITIONS, Rotary
from attn_jax.models.randomness import split
from attn_jax.models.residuals import make_residual
from attn_jax.models.two_attentions import make_attention

# The options of a model that the sublayers use.
OPTIONS = dropout.OPTIONS | {
    "heads",
    "self_heads",
    "projection",
    "norm",
    "positions",
    "feedforward_size",
}


class SelfAttention(nnx.Module):
    """Multi-head scaled dot-product attention to words of the same sentence. Section 3.2.3.

    Raises:
      InputError: the heads do not divide the features, or rotary positions would turn an odd number
        of features per head.
    """

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.heads = config.self_heads or config.heads
        self.positions = choose(POSITIONS, config.positions, "kind of positions")
        if width % self.heads:
            raise InputError(
                f"{self.heads} heads of self-attention do not divide {width} features: set "
                "model.self_heads"
            )
        if self.positions is Rotary and width // self.heads % 2:
            raise InputError(
                f"rotary positions need an even number of features a head, got {width} over "
                f"{self.heads} heads"
            )
        linear = LINEAR["affine" if config.projection == "affine" else "linear"]
        self.inputs = linear(width, 3 * width, rngs=rngs)
        self.output = linear(width, width, rngs=rngs)
        self.residual = make_residual(config, width, rngs=rngs)

    def _project(self, inputs: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> tuple:
        entered = self.residual.enter(inputs)
        projected = self.inputs(entered).reshape(*inputs.shape[:2], 3, self.heads, -1)
        queries, keys, values = jnp.moveaxis(projected, 2, 0)
        rotate = self.positions.rotate
        return rotate(queries, positions), rotate(keys, positions), values

    def _read(
        self, inputs: Array, heads: tuple, mask: Array, rng: Key[Array, " B"] | None
    ) -> Array:
        read = jax.nn.dot_product_attention(*heads, mask=mask[:, None])
        return self.residual.leave(inputs, self.output(read.reshape(inputs.shape)), rng)

    def __call__(
        self,
        inputs: Float[Array, "B T Q"],
        mask: Bool[Array, "#B #T T"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "B T Q"]:
        """Processes all words at once; `mask[b, i, j]` says whether word i may attend to word j."""
        heads = self._project(inputs, jnp.arange(inputs.shape[1]))
        return self._read(inputs, heads, mask, rng)

    def empty(self, rows: int, length: int) -> tuple[Array, Array]:
        """An empty cache for the keys and values of at most `length` words."""
        width = self.output.in_features
        cache = jnp.zeros((rows, length, self.heads, width // self.heads), jnp.float32)
        return cache, cache

    def step(
        self, cache: tuple[Array, Array], index: Int[Array, ""], inputs: Float[Array, "B Q"]
    ) -> tuple[tuple[Array, Array], Float[Array, "B Q"]]:
        """Processes the word at `index`; the cache holds the keys and values of previous words.

        Returns the new cache and the output.
        """
        inputs = inputs[:, None]
        queries, *new = self._project(inputs, index[None])
        keys, values = (old.at[:, index].set(x[:, 0]) for old, x in zip(cache, new, strict=True))
        before = jnp.arange(keys.shape[1]) <= index
        read = self._read(inputs, (queries, keys, values), before[None, None], None)
        return (keys, values), read[:, 0]


class CrossAttention(nnx.Module):
    """Attention from the words of a target to the annotations of its source. Section 3.2.3."""

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.attention = make_attention(
            config, width, config.annotation_size, width, projection="linear", rngs=rngs
        )
        self.residual = make_residual(config, width, rngs=rngs)

    def step(
        self, memory: PyTree, inputs: Float[Array, "B Q"], projected: PyTree, mask: PyTree
    ) -> tuple[PyTree, Float[Array, "B Q"], Float[Array, "B N S"]]:
        """The new memory, the output and the weights of one query per sentence."""
        query = self.residual.enter(inputs)
        memory, context, weights = self.attention.step(memory, query, projected, mask)
        return memory, self.residual.leave(inputs, context, None), weights

    def __call__(
        self,
        inputs: Float[Array, "B T Q"],
        projected: PyTree,
        mask: PyTree[Bool[Array, "B S"]],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T Q"], Float[Array, "B N T S"]]:
        """The outputs and the weights of all queries."""
        rng_attention, rng_output = split(rng, 2)
        queries = self.residual.enter(inputs)
        contexts, weights = self.attention(queries, projected, mask, rng_attention)
        return self.residual.leave(inputs, contexts, rng_output), weights


class FeedForward(nnx.Module):
    """W_2 max(0, W_1 x + b_1) + b_2. Section 3.3, equation 2."""

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.widen = Linear(width, config.feedforward_size, rngs=rngs)
        self.narrow = Linear(config.feedforward_size, width, rngs=rngs)
        self.residual = make_residual(config, width, rngs=rngs)

    def __call__(
        self, inputs: Float[Array, "... Q"], rng: Key[Array, " B"] | None = None
    ) -> Float[Array, "... Q"]:
        """The output for each word."""
        hidden = jax.nn.relu(self.widen(self.residual.enter(inputs)))
        return self.residual.leave(inputs, self.narrow(hidden), rng)
