"""The second source of a sentence, such as the tags of a lemma, and how it joins the first.

The words of both stand in one row of ids, those of the second behind those of the first and
numbered after them: id k of the second vocabulary is V¹ + k, V¹ the size of the first.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from attn_jax.attention.protocol import Weigher
from attn_jax.attention.sources import Flat
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Encoded, Encoder, Summary
from attn_jax.models.readouts import find_readout
from attn_jax.tokens import PAD


class SecondSource(nnx.Module):
    """Word vectors and an encoder of its own, like that of the first source.

    Args:
      config: the options of both encoders.
      kind: of both encoders.
      first_size: V¹, words in the first vocabulary.
      size: words in the second vocabulary.
      rngs: for the initial parameters.
    """

    def __init__(
        self,
        config: Model,
        kind: Callable[..., Encoder],
        first_size: int,
        size: int,
        *,
        rngs: nnx.Rngs,
    ):
        self.first_size, self.size = first_size, size
        self.words = nnx.Embed(size, config.embedding_size, rngs=rngs)
        self.encoder = kind(config, rngs=rngs)

    def first(self, source: Int[Array, "B S"]) -> Int[Array, "B S"]:
        """The words of the first source alone."""
        return jnp.where(source < self.first_size, source, PAD)

    def encode(self, source: Int[Array, "B S"], rng: Key[Array, " B"] | None) -> Encoded:
        """Encodes the second source of each row, moved to its front."""
        vectors, mask = self._at_front(source)
        annotations, summary = self.encoder(vectors, mask, rng)
        return Encoded(vectors, annotations, mask, summary)

    def _at_front(
        self, source: Int[Array, "B S"]
    ) -> tuple[Float[Array, "B S E"], Bool[Array, "B S"]]:
        """The vectors of the words of the second source, moved to the front, and where they are."""
        lengths = (self.first(source) != PAD).sum(axis=1)
        words = jnp.where(source < self.first_size, PAD, source - self.first_size)
        words = to_front(words, lengths)
        return self.words.embedding[...][words], words != PAD

    def self_weights(
        self, source: Int[Array, "B S"], of_first: Float[Array, "B L N S S"]
    ) -> Float[Array, "B L N S S"]:
        """The weights of self-attention where the words of both sources stand in one row.

        Each source attends to itself alone, as the first one does with the weights `of_first`.
        """
        own: Any = self.encoder
        is_first = self.first(source) != PAD
        lengths = is_first.sum(axis=1)
        moved = jax.vmap(lambda weights, by: jnp.roll(weights, (by, by), axis=(-2, -1)))(
            own.self_weights(*self._at_front(source)), lengths
        )
        return jnp.where(is_first[:, None, None, :, None], of_first, moved)

    def joined(self, first: Encoded, second: Encoded) -> Encoded:
        """Both sources, each attended to by itself. The decoder starts from both summaries."""
        vectors, annotations, mask, *_ = zip(first, second, strict=True)
        return Encoded(vectors, annotations, mask, _summary(first, second))


class InOneRow(SecondSource):
    """A second source whose annotations stand in one row with those of the first.

    Raises:
      InputError: a part of the attention depends on where words stand in that row.
    """

    def __init__(
        self,
        config: Model,
        kind: Callable[..., Encoder],
        first_size: int,
        size: int,
        *,
        rngs: nnx.Rngs,
    ):
        super().__init__(config, kind, first_size, size, rngs=rngs)
        _refuse_positional(config)
        features = config.annotation_size
        # The paper's U_c of each source, and then its U_a.
        self.of_first, self.of_second, self.keys_of_first, self.keys_of_second = (
            Linear(features, features, use_bias=False, rngs=rngs) for _ in range(4)
        )

    def joined(self, first: Encoded, second: Encoded) -> Encoded:
        """Both sources in one row, mapped to one space to be compared and to one to be summed."""
        lengths = first.mask.sum(axis=1)

        def in_row(one: Array, other: Array) -> Array:
            return jnp.where(first.mask[..., None], one, behind(other, lengths))

        return Encoded(
            in_row(first.vectors, second.vectors),
            in_row(self.of_first(first.annotations), self.of_second(second.annotations)),
            first.mask | behind(second.mask, lengths),
            _summary(first, second),
            in_row(self.keys_of_first(first.annotations), self.keys_of_second(second.annotations)),
        )


def _refuse_positional(config: Model) -> None:
    """Raises InputError if a part counts positions, or moves through them in order."""
    found = [
        part.word
        for one in config.mechanism
        for part in one.parts()
        if isinstance(part, Weigher) and part.positional
    ]
    if find_readout(config, "linear").positional:
        found.append(f"model.readout={config.readout}")
    if found:
        raise InputError(
            "model.sources=flat puts the words of the second source behind those of the first, but "
            f"{' and '.join(found)} would take them for words of one sentence: give "
            "model.sources=hierarchical, concatenated or gated"
        )


def _summary(first: Encoded, second: Encoded) -> Summary:
    """Both summaries, from which the first state of a decoder is computed."""
    vectors = first.summary.vector, second.summary.vector
    return Summary(jnp.concatenate(vectors, axis=-1), first.summary.states)


def make_second(
    config: Model, kind: Callable[..., Encoder], first_size: int, size: int, *, rngs: nnx.Rngs
) -> SecondSource:
    """The second source, as `model.sources` attends to it."""
    how = InOneRow if isinstance(config.sources, Flat) else SecondSource
    return how(config, kind, first_size, size, rngs=rngs)


def to_front(rows: Shaped[Array, "B S ..."], lengths: Int[Array, " B"]) -> Shaped[Array, "B S ..."]:
    """Rows without their first sentence, of these lengths, which goes to the end."""
    return jax.vmap(lambda row, length: jnp.roll(row, -length, axis=0))(rows, lengths)


def behind(rows: Shaped[Array, "B S ..."], lengths: Int[Array, " B"]) -> Shaped[Array, "B S ..."]:
    """Rows that begin only after so many positions; what is at their end goes to the front."""
    return jax.vmap(lambda row, length: jnp.roll(row, length, axis=0))(rows, lengths)
