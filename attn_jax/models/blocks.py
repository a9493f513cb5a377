"""The sublayers of Transformer blocks, each with its residual connection.

Vaswani et al. 2017, section 3. Cross-attention can use any mechanism.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.kernels.forms import FAST
from attn_jax.models import dropout
from attn_jax.models.dropout import make_dropout
from attn_jax.models.heads import LINEAR
from attn_jax.models.linear import Linear
from attn_jax.models.randomness import split
from attn_jax.models.two_attentions import make_attention

EPSILON = 1e-5  # of layer normalisation


class LayerNorm(nnx.LayerNorm):
    """Flax's layer normalisation, recomputed from the inputs for the derivative."""

    forms = FAST

    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, inputs: Float[Array, "... Q"]
    ) -> Float[Array, "... Q"]:
        """The inputs with a mean of 0 and a variance of 1, scaled and shifted."""
        return self.forms.recomputed(nnx.LayerNorm.__call__)(self, inputs)


class PostNorm(nnx.Module):
    """LayerNorm(x + f(x)). Vaswani et al. 2017, section 3.1; with dropout on f(x), section 5.4."""

    normalizes_output = True

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.norm = LayerNorm(width, epsilon=EPSILON, rngs=rngs)
        self.dropout = make_dropout(config)

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """The input of f: x."""
        return inputs

    def leave(
        self,
        inputs: Float[Array, "... Q"],
        outputs: Float[Array, "... Q"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "... Q"]:
        """LayerNorm(x + f(x)), from x and f(x)."""
        return self.norm(inputs + self.dropout(outputs, rng))


class PreNorm(PostNorm):
    """x + f(LayerNorm(x)), which needs a final LayerNorm above all blocks. Xiong et al. 2020."""

    normalizes_output = False

    def enter(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """The input of f: LayerNorm(x)."""
        return self.norm(inputs)

    def leave(
        self,
        inputs: Float[Array, "... Q"],
        outputs: Float[Array, "... Q"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "... Q"]:
        """The sum of x and the output of f."""
        return inputs + self.dropout(outputs, rng)


RESIDUALS: dict[str, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm}


def make_residual(config: Model, width: int, *, rngs: nnx.Rngs) -> PostNorm:
    """The residual connection selected by the options."""
    return choose(RESIDUALS, config.norm, "norm")(config, width, rngs=rngs)


def make_last_norm(config: Model, width: int, *, rngs: nnx.Rngs) -> LayerNorm | None:
    """The layer normalisation above all blocks; None if the blocks end with one."""
    if choose(RESIDUALS, config.norm, "norm").normalizes_output:
        return None
    return LayerNorm(width, epsilon=EPSILON, rngs=rngs)


def angles(positions: Int[Array, " T"], features: int) -> Float[Array, "T P"]:
    """The angles of positions, in radians, one for each of the P = ⌈features / 2⌉ pairs.

    Wavelengths are from 2π to 10000 · 2π.
    """
    rates = 10000.0 ** (-jnp.arange(0, features, 2) / features)
    return positions[:, None] * rates


class Sinusoidal:
    """Sines and cosines of positions, added to word vectors. Vaswani et al. 2017, section 3.5."""

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors with their positions."""
        features = vectors.shape[-1]
        turned = angles(positions, features)
        waves = jnp.stack([jnp.sin(turned), jnp.cos(turned)], axis=-1)
        waves = waves.reshape(positions.size, -1)[:, :features]
        return vectors + waves.astype(vectors.dtype)

    @staticmethod
    def rotate(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys, unchanged."""
        return heads


class Rotary:
    """Rotates pairs of features of queries and keys by angles proportional to the position.

    Positions then affect a score only through their difference. Su et al. 2021, section 3.2.2;
    computed as in section 3.4.2.
    """

    @staticmethod
    def add(vectors: Float[Array, "B T Q"], positions: Int[Array, " T"]) -> Float[Array, "B T Q"]:
        """Word vectors, unchanged."""
        return vectors

    @staticmethod
    def rotate(
        heads: Float[Array, "B T N H"], positions: Int[Array, " T"]
    ) -> Float[Array, "B T N H"]:
        """Queries or keys [B, T, N, H], rotated; H must be even."""
        turned = angles(positions, heads.shape[-1])[:, None]
        cos, sin = jnp.cos(turned).astype(heads.dtype), jnp.sin(turned).astype(heads.dtype)
        even, odd = heads[..., ::2], heads[..., 1::2]
        both = jnp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return both.reshape(heads.shape)


POSITIONS: dict[str, type[Sinusoidal | Rotary]] = {"sinusoidal": Sinusoidal, "rotary": Rotary}


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

    def weights(
        self, inputs: Float[Array, "B T Q"], mask: Bool[Array, "#B #T T"]
    ) -> Float[Array, "B N T T"]:
        """How much word i attends to word j. The product in `__call__` is fused, and hides it."""
        queries, keys, _ = self._project(inputs, jnp.arange(inputs.shape[1]))
        scores = jnp.einsum("BTNH,BSNH->BNTS", queries, keys) / queries.shape[-1] ** 0.5
        return jax.nn.softmax(jnp.where(mask[:, None], scores, jnp.finfo(scores.dtype).min))

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

    def __init__(self, config: Model, layer: int, *, rngs: nnx.Rngs):
        width = config.hidden_size
        sizes = width, config.annotation_size, width
        self.attention = make_attention(config, *sizes, projection="linear", layer=layer, rngs=rngs)
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
