"""Plain functions as parts, without settings, parameters or a state.

What they return is of any kind: the stages of a step refuse what is no number for each position.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Bool, Float

from attn_jax.attention.protocol import Normalizer, Part, Past, Score, Window, inner


class PlainScore(Score):
    """A function `(query [Q], keys [S, D]) -> [S]`."""

    function: Callable = inner()
    gives_logarithms = True  # as far as anybody knows

    @property
    def word(self) -> str:
        """The function as `module:name`."""
        return _word(self.function)

    def score(self, p: Any, query: Array, keys: Array, past: Past) -> Any:
        return self.function(query, keys)


class PlainWindow(Window):
    """A function `(query [Q], mask [S]) -> [S]`, what is added to the scores: 0 or -∞."""

    function: Callable = inner()

    @property
    def word(self) -> str:
        """The function as `module:name`."""
        return _word(self.function)

    def bias(self, p: Any, query: Array, past: Past) -> Any:
        return self.function(query, past.mask)


class PlainNormalizer(Normalizer):
    """A function `(scores [S], mask [S]) -> weights [S]`."""

    function: Callable = inner()

    @property
    def word(self) -> str:
        """The function as `module:name`."""
        return _word(self.function)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Any:
        return self.function(scores, mask)


def as_part(kind: type[Part], given: Any) -> Any:
    """A score, window or normalizer, which may be given as a plain function."""
    if isinstance(given, Part | type) or not callable(given):
        return given
    plain: dict[type[Part], Callable[[Callable], Part]] = {
        Score: PlainScore,
        Window: PlainWindow,
        Normalizer: PlainNormalizer,
    }
    return plain[kind](given)


def _word(function: Callable) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '')}:{name}"
