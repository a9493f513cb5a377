"""The attention of a decoder to one source, or to each of two."""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key, PyTree

from attn_jax.attention.sources import Combined
from attn_jax.attention.steps import Attended, Memory, Weighed
from attn_jax.attention.windows import Full
from attn_jax.config import Model
from attn_jax.models.attention import Attention, widened
from attn_jax.models.protocols import Encoded
from attn_jax.models.randomness import split
from attn_jax.models.second_source import behind

Masks = tuple[Bool[Array, "B S"], Bool[Array, "B S"]]


class TwoAttentions(nnx.Module):
    """A mechanism for each source, whose contexts `model.sources` combines.

    What an `Attention` takes or returns of the source is here a pair of these, except the weights:
    those of the second source follow those of the first in one row, as their words do. Arguments
    are those of `Attention`.
    """

    sums_values = False

    def __init__(
        self,
        config: Model,
        query_size: int,
        annotation_size: int,
        output_size: int | None = None,
        *,
        projection: str,
        layer: int = 0,
        rngs: nnx.Rngs,
    ):
        assert isinstance(config.sources, Combined)
        self.sources = config.sources
        second = dataclasses.replace(
            config, score=self.sources.score, window=Full(), normalizer=self.sources.normalizer
        )
        sizes = query_size, annotation_size, output_size
        how: dict[str, Any] = {"projection": projection, "layer": layer, "rngs": rngs}
        self.first = Attention(config, *sizes, **how)
        self.second = Attention(second, *sizes, **how)
        self.size = output_size or self.sources.size(*self.sizes)
        first = self.sources.init(rngs.params(), query_size, *self.sizes, self.size)
        self.parameters = nnx.Param(widened(first))

    @property
    def sizes(self) -> tuple[int, int]:
        """The features of a context of each source."""
        return self.first.size, self.second.size

    def project(self, encoded: Encoded) -> tuple[Attended, Attended]:
        """The keys and values of each source."""
        first, second = encoded.each()
        return self.first.project(first), self.second.project(second)

    def alone(self, attended: tuple[Attended, Attended]) -> Float[Array, "B S O"]:
        """The contexts of the first source if all weight is on one position."""
        return self.first.alone(attended[0])

    def begin(self, mask: Masks) -> tuple[Memory, Memory]:
        """The memories before the first query."""
        return self.first.begin(mask[0]), self.second.begin(mask[1])

    def step(
        self,
        memory: tuple[Memory, Memory],
        query: Float[Array, "B Q"],
        attended: tuple[Attended, Attended],
        mask: Masks,
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[tuple, Float[Array, "B O"], Float[Array, "B N S"]]:
        """The new memories, the combined context and the weights of one query per sentence."""
        rngs = split(rng, 2)
        first, second = (
            attention.step(memory[k], query, attended[k], mask[k], rngs[k])
            for k, attention in enumerate((self.first, self.second))
        )
        context, shares = jax.vmap(self._combined)(query, first[1], second[1])
        return (first[0], second[0]), context, _in_row((first[2], second[2]), shares, mask)

    def __call__(
        self,
        queries: Float[Array, "B T Q"],
        attended: tuple[Attended, Attended],
        mask: Masks,
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T O"], Float[Array, "B N T S"]]:
        """The combined contexts and the weights of T queries."""
        rngs = split(rng, 2)
        first, second = (
            attention(queries, attended[k], mask[k], rngs[k])
            for k, attention in enumerate((self.first, self.second))
        )
        context, shares = jax.vmap(jax.vmap(self._combined))(queries, first[0], second[0])
        return context, _in_row((first[1], second[1]), shares, mask)

    @property
    def _combined(self) -> partial:
        return partial(self.sources.combined, self.parameters.get_value())


def _in_row(
    weights: tuple[PyTree[Float[Array, "B N *T S"]], PyTree[Float[Array, "B N *T S"]]],
    shares: Float[Array, "B *T 2"],
    mask: Masks,
) -> PyTree[Float[Array, "B N *T S"]]:
    """The weights of both sources in one row, multiplied with the share of their source."""
    # [B, *T, 2] as two arrays [B, 1, *T, 1], the same for all heads and positions.
    of_first, of_second = jnp.moveaxis(shares, -1, 0)[:, :, None, ..., None]
    # The second source begins behind the words of the first, not behind its padding.
    lengths = mask[0].sum(axis=1)

    def in_row(first: Array, second: Array) -> Array:
        moved = jnp.moveaxis(behind(jnp.moveaxis(second, -1, 1), lengths), 1, -1)
        return of_first * first + of_second * moved

    pairs = (each if isinstance(each, Weighed) else (each, each) for each in weights)
    found = Weighed(*map(in_row, *pairs))
    return found if any(isinstance(each, Weighed) for each in weights) else found.weights


AnyAttention = Attention | TwoAttentions


def make_attention(
    config: Model,
    query_size: int,
    annotation_size: int,
    output_size: int | None = None,
    *,
    projection: str,
    layer: int = 0,
    rngs: nnx.Rngs,
) -> AnyAttention:
    """The attention of a decoder, to both sources where each has a mechanism of its own."""
    kind = TwoAttentions if isinstance(config.sources, Combined) else Attention
    sizes = query_size, annotation_size, output_size
    return kind(config, *sizes, projection=projection, layer=layer, rngs=rngs)
