"""Projections of queries, of what they are compared with, and of values, for heads of attention.

Heads are arranged as [K, G]: K heads of keys and values, each shared by G heads of queries
(G = 1: multi-head; K = 1: multi-query, Shazeer 2019; else: grouped-query, Ainslie et al. 2023).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attn_jax.attention.sources import Flat
from attn_jax.attention.values import Annotations
from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.models.linear import Linear

# That are used here.
OPTIONS = frozenset({"heads", "key_value_heads", "head_size", "latent_size", "projection"})


class Sizes(NamedTuple):
    """Features of what a head sees: its queries, what these are compared with, and its contexts."""

    Q: int
    D: int
    C: int


class Unprojected(nnx.Module):
    """One head, which uses queries, what is compared, and values without projections."""

    shape = 1, 1  # K, G

    def __init__(self, sizes: Sizes):
        self.sizes = sizes

    def query(self, query: Float[Array, "*any Q"]) -> Float[Array, "*any 1 1 Q"]:
        """The queries of each head."""
        return query[..., None, None, :]

    def keys_and_values(
        self, compared: Float[Array, "B S D"], values: Float[Array, "B S C"]
    ) -> tuple[Array, Array]:
        """The keys [B, K, S, D] and the values [B, K, S, C] of each head."""
        return compared[:, None], values[:, None]

    def combine(self, contexts: Float[Array, "*any 1 1 C"]) -> Float[Array, "*any C"]:
        """The context, from the contexts of the heads."""
        return contexts[..., 0, 0, :]


class Heads(nnx.Module):
    """Linear maps from queries, keys and values to H features per head, and from heads to outputs.

    A single head of the size of the output has no output map.

    Vaswani et al. 2017, section 3.2.2.

    Raises:
      InputError: the number of heads is not a multiple of `key_value_heads`, or does not divide the
        features of the context while `head_size` is not given.
    """

    def __init__(
        self,
        config: Model,
        sizes: Sizes,
        output_size: int,
        *,
        linear: Callable[..., Linear],
        rngs: nnx.Rngs,
    ):
        heads = config.heads
        key_value_heads = config.key_value_heads or heads
        if heads % key_value_heads:
            raise InputError(
                f"model.key_value_heads={key_value_heads} does not divide model.heads={heads}"
            )
        if output_size % heads and not config.head_size:
            raise InputError(
                f"model.heads={heads} does not divide the {output_size} features of the "
                "context: give model.head_size"
            )
        self.shape = key_value_heads, heads // key_value_heads
        size = config.head_size or output_size // heads
        self.sizes = Sizes(size, size, size)

        self.queries = linear(sizes.Q, heads * size, rngs=rngs)
        self.keys = linear(sizes.D, key_value_heads * size, rngs=rngs)
        self.values = linear(sizes.C, key_value_heads * size, rngs=rngs)
        alone = (heads, size) == (1, output_size)
        self.output = None if alone else linear(heads * size, output_size, rngs=rngs)

    def query(self, query: Float[Array, "*any Q"]) -> Float[Array, "*any K G H"]:
        """The queries of each head."""
        projected = self.queries(query)
        return projected.reshape(*query.shape[:-1], *self.shape, -1)

    def keys_and_values(
        self, compared: Float[Array, "B S D"], values: Float[Array, "B S C"]
    ) -> tuple[Array, Array]:
        """The keys [B, K, S, H] and the values of each head."""
        shape = *compared.shape[:2], self.shape[0], -1
        keys, values = (
            jnp.swapaxes(linear(vectors).reshape(shape), 1, 2)
            for linear, vectors in ((self.keys, compared), (self.values, values))
        )
        return keys, values

    def combine(self, contexts: Float[Array, "*any K G H"]) -> Float[Array, "*any O"]:
        """The context, from the contexts of the heads."""
        joined = contexts.reshape(*contexts.shape[:-3], -1)
        return joined if self.output is None else self.output(joined)


class LatentHeads(Heads):
    """Keys and values of all heads from one vector of few features, c_j = W^DKV h_j.

    k_j = W^UK c_j and v_j = W^UV c_j, where `keys` and `values` hold W^UK and W^UV of all heads.
    That needs L (D + 2 K H) parameters, L the features of c, instead of 2 D K H.

    DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.2, equations 9 to 11. Not here: the compression of
    queries (equations 12 and 13), which only saves memory in training; the features of queries and
    keys that alone are rotated (section 2.1.3; the score `rotary` rotates all); and the root mean
    square norm of c, which is in its program and not in its equations. The paper attends to the
    words of the same sentence, here a decoder attends to its source. There, a cache holds c alone:
    a score that is a dot product lets W^UK and W^UV go into the maps of queries and outputs. Here,
    keys and values are made once per sentence and held, so that every score can read them.

    Raises:
      InputError: what is compared is not what is summed; or as for `Heads`.
    """

    def __init__(
        self,
        config: Model,
        sizes: Sizes,
        output_size: int,
        *,
        linear: Callable[..., Linear],
        rngs: nnx.Rngs,
    ):
        apart = "sources" if isinstance(config.sources, Flat) else ""
        if config.values != Annotations():
            apart = "values"
        if apart:
            told = f"model.{apart}={getattr(config, apart).brief()}"
            raise InputError(
                f"model.latent_size={config.latent_size} makes the key and the value of a position "
                f"from one vector, but with {told} they are of two: leave it out"
            )
        latent = config.latent_size
        super().__init__(
            config, Sizes(sizes.Q, latent, latent), output_size, linear=linear, rngs=rngs
        )
        self.latent = linear(sizes.D, latent, rngs=rngs)

    def keys_and_values(
        self, compared: Float[Array, "B S D"], values: Float[Array, "B S D"]
    ) -> tuple[Array, Array]:
        """The keys [B, K, S, H] and the values of each head, both of what is compared."""
        latent = self.latent(compared)
        return super().keys_and_values(latent, latent)


# The linear maps of `Heads`; `none` stands for `Unprojected`.
LINEAR: dict[str, Callable[..., Linear]] = {
    "linear": partial(Linear, use_bias=False),
    "affine": Linear,
}
PROJECTIONS: dict[str, Callable[..., Linear] | None] = {"none": None, **LINEAR}


def make_projections(
    config: Model, sizes: Sizes, output_size: int, usual: str, *, rngs: nnx.Rngs
) -> Unprojected | Heads:
    """The projections selected by the options.

    Args:
      config: the options.
      sizes: of what is projected.
      output_size: O, features of the context that is handed on.
      usual: what `model.projection=auto` stands for unless the options ask for heads; if they do,
        it stands for `linear`.

    Raises:
      InputError: an option is unknown, or options cannot be combined.
    """
    given = config.head_size, config.key_value_heads, config.latent_size
    several = config.heads > 1 or any(given)
    name = config.projection
    if name == "auto":
        name = "linear" if several else usual
    linear = choose(PROJECTIONS, name, "projection")
    if linear is not None:
        kind = LatentHeads if config.latent_size else Heads
        return kind(config, sizes, output_size, linear=linear, rngs=rngs)
    if several:
        raise InputError("heads need projections: give model.projection=linear or affine")
    if output_size != sizes.C:
        raise InputError(
            f"without projections a context has the {sizes.C} features of what is summed, not the "
            f"{output_size} that are needed: give model.projection=linear"
        )
    return Unprojected(sizes)
