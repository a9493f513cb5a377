"""Plain functions as parts, without settings, parameters or a state.

What they return is of any kind: the stages of a step refuse what is no number for each position.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer, Part, Score, Weigher, Window
from attn_jax.settings.value import inner


class Plain(Weigher):
    """What plain functions as parts have in common: text names them as `module:name`."""

    function: Callable = inner()
    # `module:name`, where text has named it: the same function is the same part without it, too.
    place: str = dataclasses.field(default="", compare=False)

    @property
    def word(self) -> str:
        """The function as `module:name`."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return self.place or f"{getattr(self.function, '__module__', '')}:{name}"

    def __str__(self) -> str:
        return self.word

    def brief(self) -> str:
        """The same: there are no settings."""
        return self.word


class PlainScore(Plain, Score):
    """A function `(query [Q], keys [S, D]) -> [S]`."""

    gives_logarithms = True  # as far as anybody knows

    def score(self, p: Any, query: Array, keys: Array, past: Past) -> Any:
        return self.function(query, keys)


class PlainWindow(Plain, Window):
    """A function `(query [Q], mask [S]) -> [S]`, what is added to the scores: 0 or -∞."""

    def bias(self, p: Any, query: Array, past: Past) -> Any:
        return self.function(query, past.mask)


class PlainNormalizer(Plain, Normalizer):
    """A function `(scores [S], mask [S]) -> weights [S]`."""

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Any:
        return self.function(scores, mask)


PLAIN: dict[type[Part], Callable[..., Part]] = {
    Score: PlainScore,
    Window: PlainWindow,
    Normalizer: PlainNormalizer,
}


def as_part(kind: type[Any], given: Any, place: str = "") -> Any:
    """A part, which may be given as a plain function if its kind is in `PLAIN`.

    Args:
      kind: such as `Score`.
      given: a part or a function.
      place: `module:name` of a function, which may be one without a name, such as a `partial`.
    """
    if isinstance(given, Part | type) or not callable(given) or kind not in PLAIN:
        return given
    return PLAIN[kind](given, place=place)
