"""The parts of an attention mechanism, and how they are called.

A mechanism consists of a score, a window and a normalizer. Each is a plain function of one query
and one sentence. At each step, it receives those of the following that it names as keyword-only
arguments:

- its parameters, which `shapes(sizes, **settings) -> {name: shape}` lists, so that a model can own
  them;
- its settings, which are numbers with a default (Python numbers that JAX does not trace, since they
  decide what is computed);
- `query` [Q], `mask` [S], `step`, the number of previous steps, and `memory`, what these attended
  to (a `Memory`);
- `rng`, for a normalizer: a random key in training, otherwise None;
- `carry`, its own state. A part with a carry returns its result and the next carry;
  `start(mask, ...)` returns the initial one.

The decorator `part` attaches `shapes`, `start` and others to a function, as its `traits`. A
function without it is a part too.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from jaxtyping import Array, Bool, Float, Int

from attn_jax import names
from attn_jax.errors import InputError

Shapes = dict[str, tuple[int, ...]]
Function = TypeVar("Function", bound=Callable)

# What each step provides to the parts that name it.
PROVIDED = ("query", "mask", "step", "memory", "carry", "rng")


class Sizes(NamedTuple):
    """Features of a query and of an annotation, and hidden units of an alignment model."""

    Q: int
    D: int
    A: int


class Memory(NamedTuple):
    """What a mechanism remembers of previous steps."""

    step: Int[Array, ""]  # the number of previous steps
    weights: Float[Array, " S"]  # of the last step; initially 0
    total: Float[Array, " S"]  # the sum of the weights of all previous steps
    carries: dict[str, Any]  # of the parts that have one, by `score`, `window` and `normalizer`


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class part:
    """A decorator that attaches to a function what a model needs to know about it.

    Attributes:
      shapes: `(sizes, **settings) -> {name: shape}`, its parameters; none by default.
      initial: initial values of parameters, by name; those not named are drawn at random.
      keys: for a score, `(annotations [S, D], **parameters) -> [S, A]`, what it compares queries
        with, computed once per sentence; the annotations themselves by default.
      start: `(mask [S], **parameters) -> carry`, the initial carry. It can take only parameters and
        settings that the function names too.
      decoding: the function that replaces this one outside training.
      normalizer: for a score, the name of its default normalizer, as in its paper.
      score_count: for a normalizer, the number of scores that it takes.
      factored: for a score that computes [S, A] hidden units for each query, the score in two
        functions: `(query, **parameters) -> projected`, which is computed for all queries in
        parallel, and `(projected, keys, **parameters) -> [S]`, which is computed for one query
        after another, to save memory.
    """

    shapes: Callable[..., Shapes] | None = None
    initial: Mapping[str, float] = dataclasses.field(default_factory=dict)
    keys: Callable[..., Array] | None = None
    start: Callable[..., Any] | None = None
    decoding: Callable | None = None
    normalizer: str = "softmax"
    score_count: int = 1
    factored: tuple[Callable, Callable] | None = None

    def __call__(self, function: Function) -> Function:
        """Attaches this to a function, and returns the function."""
        function.traits = self
        return function


PLAIN = part()  # of a function without the decorator


def traits_of(function: Callable) -> part:
    """What `part` attached to a function, whether or not arguments are bound to it."""
    return getattr(unbound(function), "traits", PLAIN)


def unbound(function: Callable) -> Callable:
    """The function without the arguments that `functools.partial` bound to it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def name_of(function: Callable) -> str:
    """The name of a function, or of the type of another callable, for error messages."""
    function = unbound(function)
    return getattr(function, "__name__", type(function).__name__)


def bind(function: Callable, available: Mapping[str, Any]) -> Callable:
    """The function, bound to those of the available arguments that it names as keyword-only."""
    wanted = named_by(function)
    return functools.partial(function, **{n: available[n] for n in wanted if n in available})


def named_by(function: Callable) -> dict[str, Any]:
    """The keyword-only arguments of a function, with their defaults.

    Raises:
      InputError: an argument is bound to the function that it does not take, or the function is a
        builtin without a signature.
    """
    try:
        return names.keywords_of(function)
    except ValueError:
        if unbound(function) is function:
            raise InputError(
                f"{name_of(function)} has no signature: wrap it in a function"
            ) from None
        known = ", ".join(named_by(unbound(function)))
        raise InputError(
            f"{name_of(function)} takes {known or 'no keyword argument'}, and is bound to "
            f"{', '.join(function.keywords)}"
        ) from None


def settings_of(function: Callable) -> dict[str, int | float]:
    """The settings of a function: its keyword-only arguments whose default is a number."""
    return {n: d for n, d in named_by(function).items() if type(d) in (int, float)}


@dataclasses.dataclass(frozen=True)
class Part:
    """A function with its settings; parts with the same function and settings are equal."""

    function: Callable
    given: tuple[tuple[str, int | float], ...] = ()

    @property
    def traits(self) -> part:
        """What the decorator `part` attached to the function."""
        return traits_of(self.function)

    @property
    def settings(self) -> dict[str, int | float]:
        """All settings; those that are not given have their defaults."""
        known: dict[str, int | float] = {}
        for function in filter(None, (self.traits.shapes, self.traits.keys)):
            known |= settings_of(function)
        return known | settings_of(self.function) | dict(self.given)

    @property
    def required(self) -> list[str]:
        """The parameters that are not yet bound to the function."""
        return [
            name
            for name, default in named_by(self.function).items()
            if default is inspect.Parameter.empty and name not in PROVIDED
        ]

    @property
    def taken(self) -> set[str]:
        """The keyword-only arguments of the function and of the functions attached to it."""
        traits = self.traits
        attached = traits.keys, traits.start, traits.decoding, *(traits.factored or ())
        functions = self.function, *filter(None, attached)
        return {name for function in functions for name in named_by(function)}

    @property
    def looks_back(self) -> bool:
        """Whether a step depends on the attention of previous steps."""
        return bool({"memory", "carry"} & named_by(self.function).keys())

    @property
    def counts(self) -> bool:
        """Whether a step depends on the number of previous steps."""
        return "step" in named_by(self.function)

    @property
    def decoding(self) -> "Part":
        """The part that replaces this one outside training: usually the same."""
        other = self.traits.decoding
        return Part(bind(other, self._fixed), self.given) if other else self

    @property
    def has_carry(self) -> bool:
        """Whether the function carries a state of its own from step to step."""
        return self.traits.start is not None

    @property
    def _fixed(self) -> dict[str, Any]:
        """The function's own settings and what is bound to it, for the functions attached to it."""
        bound = self.function.keywords if isinstance(self.function, functools.partial) else {}
        return settings_of(self.function) | bound | dict(self.given)

    def start(self, mask: Bool[Array, " S"]) -> Any:
        """The initial carry, computed with the parameters that are bound to the function."""
        return bind(self.traits.start, self._fixed)(mask)

    @property
    def factored(self) -> tuple[Callable, Callable] | None:
        """The two functions of `part(factored=...)`, with the parameters bound to the score.

        None for other scores.
        """
        halves = self.traits.factored
        return halves and tuple(bind(half, self._fixed) for half in halves)

    @property
    def makes_keys(self) -> bool:
        """Whether a score computes keys from the annotations, with or without parameters."""
        return self.traits.keys is not None

    def bound(self, available: Mapping[str, Any]) -> Callable:
        """The function, bound to its settings and to those of the available arguments it names."""
        return bind(self.function, dict(self.given) | dict(available))

    def keys(self, annotations: Float[Array, "S D"], parameters: Mapping[str, Any]) -> Array:
        """The keys of a score for one sentence, [S, A]."""
        keys = self.traits.keys
        return bind(keys, self._fixed | dict(parameters))(annotations) if keys else annotations

    def shapes(self, sizes: Sizes) -> Shapes:
        """The names and shapes of the parameters that are not bound to the function."""
        shapes = self.traits.shapes
        known = bind(shapes, self._fixed)(sizes) if shapes else {}
        return {name: shape for name, shape in known.items() if name not in self._fixed}
