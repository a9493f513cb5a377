"""Parts, of which an attention mechanism is composed, and how each is called.

A mechanism is a score, a window and a normalizer. Each is a plain function of one query and one
sentence, and receives at each step what it names as keyword arguments:

- its parameters, which `shapes(sizes, **settings) -> {name: shape}` lists, so that a model can own
  them, and its settings, which are numbers with a default (Python numbers, which JAX does not
  trace, since they decide what is computed);
- `query` [Q], `mask` [S], and `memory`, what was attended to in earlier steps (a `Memory`);
- `rng`, for a normalizer that is random, in training only;
- `carry`, what it keeps for itself from step to step. It then returns its result and the next
  carry; `start(mask, ...)` makes the first.

`shapes`, `start` and the others are attributes of the function, set by the decorator `part`. A
function without any is a part too.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int

from attn_jax import names
from attn_jax.errors import InputError

Shapes = dict[str, tuple[int, ...]]

# What a step has for every part that names it.
PROVIDED = ("query", "mask", "step", "memory", "carry", "rng")


class Sizes(NamedTuple):
    """Features of a query, of an annotation, and units of an alignment model."""

    Q: int
    D: int
    A: int


class Memory(NamedTuple):
    """What a mechanism remembers of the steps before."""

    step: Int[Array, ""]  # how many there were
    weights: Float[Array, " S"]  # of the last one; 0 at first
    total: Float[Array, " S"]  # sum over all of them
    carries: dict[str, Any]  # of the parts that keep one, by what they are


def part(
    *,
    shapes: Callable | None = None,
    initial: Mapping[str, float] | None = None,
    keys: Callable | None = None,
    start: Callable | None = None,
    decoding: Callable | None = None,
    normalizer: str | None = None,
    scores: int | None = None,
    hidden: tuple[Callable, Callable] | None = None,
) -> Callable:
    """Attaches to a function what a model must know of it.

    Args:
      shapes: `(sizes, **settings) -> {name: shape}`, its parameters; none by default.
      initial: the number that a parameter begins with, by name; random when not named.
      keys: of a score, `(annotations [S, D], **parameters) -> [S, A]`, what it needs of the
        annotations, done once per sentence; the annotations themselves by default.
      start: `(mask [S], **parameters) -> carry`, the first one, of what the function names too.
      decoding: of a normalizer, the function that takes its place outside training.
      normalizer: of a score, the name of the normalizer that its paper gives it.
      scores: of a normalizer, how many scores it reads, one unless it says otherwise.
      hidden: of a score that makes [S, A] hidden units for each query, so that many queries should
        come one after the other, its two halves: `(query, **parameters)`, done for all queries at
        once, and what that gives with the keys, `(projected, keys, **parameters) -> [S]`.
    """

    attributes = {name: value for name, value in locals().items() if value is not None}

    def attach(function: Callable) -> Callable:
        vars(function).update(attributes)
        return function

    return attach


def attribute(function: Callable, name: str, default: Any) -> Any:
    """What `part` attached to a function, also when arguments have been bound to it since."""
    return getattr(unbound(function), name, default)


def unbound(function: Callable) -> Callable:
    """The function itself, without the arguments that were bound to it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable) -> str:
    """What errors call a function, or an object that is called as one."""
    function = unbound(function)
    return getattr(function, "__name__", type(function).__name__)


def bind(function: Callable, available: Mapping[str, Any]) -> Callable:
    """The function with those of the available things that it names as keyword arguments."""
    wanted = named_by(function)
    return functools.partial(function, **{n: available[n] for n in wanted if n in available})


def named_by(function: Callable) -> dict[str, Any]:
    """What a function names as keyword arguments, with their defaults.

    Raises:
      InputError: an argument is bound to it that it does not take, or it is a builtin that does
        not tell its arguments.
    """
    try:
        return names.keywords_of(function)
    except ValueError:
        if unbound(function) is function:
            raise InputError(
                f"{name_of(function)} does not tell its arguments: write a function around it"
            ) from None
        known = ", ".join(named_by(unbound(function)))
        raise InputError(
            f"{name_of(function)} takes {known or 'no keyword argument'}, and is bound to "
            f"{', '.join(function.keywords)}"
        ) from None


def settings_of(function: Callable) -> dict[str, int | float]:
    """The settings of a function: its keyword arguments whose default is a number."""
    return {n: d for n, d in named_by(function).items() if type(d) in (int, float)}


def annotations_themselves(annotations: Float[Array, "S D"]) -> Float[Array, "S D"]:
    """The keys of a score that compares a query with annotations as they are."""
    return annotations


@dataclasses.dataclass(frozen=True)
class Part:
    """A function with its settings; equal to another of the same function and settings."""

    function: Callable
    given: tuple[tuple[str, int | float], ...] = ()

    @property
    def settings(self) -> dict[str, int | float]:
        """All settings, those not given at their defaults."""
        known = settings_of(self.function)
        for half in ("shapes", "keys"):
            function = attribute(self.function, half, None)
            known |= settings_of(function) if function else {}
        return known | dict(self.given)

    @property
    def required(self) -> list[str]:
        """The parameters that the function cannot do without and that are not bound to it."""
        return [
            name
            for name, default in named_by(self.function).items()
            if default is inspect.Parameter.empty and name not in PROVIDED
        ]

    @property
    def taken(self) -> set[str]:
        """What the function and its halves name as keyword arguments."""
        halves = (attribute(self.function, half, None) for half in ("keys", "start", "decoding"))
        functions = self.function, *filter(None, halves), *attribute(self.function, "hidden", ())
        return {name for function in functions for name in named_by(function)}

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on the attention of the steps before."""
        return bool({"memory", "carry"} & named_by(self.function).keys())

    @property
    def counts(self) -> bool:
        """Whether a step depends on how many there were before."""
        return "step" in named_by(self.function)

    @property
    def decoding(self) -> "Part":
        """The part that takes this one's place outside training: mostly itself."""
        other = attribute(self.function, "decoding", None)
        return Part(bind(other, self._bound), self.given) if other else self

    @property
    def has_carry(self) -> bool:
        """Whether the function keeps something for itself from step to step."""
        return attribute(self.function, "start", None) is not None

    @property
    def _bound(self) -> dict[str, Any]:
        """The settings and the arguments that are bound to the function."""
        bound = self.function.keywords if isinstance(self.function, functools.partial) else {}
        return bound | dict(self.given)

    def start(self, mask: Bool[Array, " S"]) -> Any:
        """The first carry, from the parameters that are bound to the function."""
        return bind(attribute(self.function, "start", None), self._bound)(mask)

    @property
    def hidden(self) -> tuple[Callable, Callable] | None:
        """The halves of a score with hidden units, from the parameters that are bound to it."""
        halves = attribute(self.function, "hidden", None)
        return halves and tuple(bind(half, self._bound) for half in halves)

    @property
    def scores(self) -> int:
        """How many scores a normalizer reads."""
        return attribute(self.function, "scores", 1)

    @property
    def makes_keys(self) -> bool:
        """Whether a score makes keys of the annotations, with parameters or without."""
        return attribute(self.function, "keys", None) is not None

    def bound(self, available: Mapping[str, Any]) -> Callable:
        """The function with its settings and those of the available things that it names."""
        return bind(self.function, dict(self.given) | dict(available))

    def keys(self, annotations: Float[Array, "S D"], parameters: Mapping[str, Any]) -> Array:
        """The keys of a score for one sentence, [S, A]."""
        keys = attribute(self.function, "keys", annotations_themselves)
        return bind(keys, self._bound | dict(parameters))(annotations)

    def shapes(self, sizes: Sizes) -> Shapes:
        """The names and shapes of the parameters that are not bound to the function."""
        shapes = attribute(self.function, "shapes", None)
        known = bind(shapes, self._bound)(sizes) if shapes else {}
        return {name: shape for name, shape in known.items() if name not in self._bound}

    @property
    def initial(self) -> dict[str, float]:
        """The numbers that parameters begin with, where they are not random."""
        return attribute(self.function, "initial", {})
