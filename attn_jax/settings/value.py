"""Values with settings: frozen dataclasses that text can name, as in `entmax(alpha=1.25)`.

Subclasses of `Value` need no decorator: annotated class attributes are settings, others are facts.
"""

import contextlib
import dataclasses
import math
import numbers
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Literal, dataclass_transform

from attn_jax.errors import InputError
from attn_jax.settings.fields import LARGEST
from attn_jax.settings.grammar import written

Bound = int | float | None
BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "at least": operator.ge,
    "more than": operator.gt,
    "at most": operator.le,
    "less than": operator.lt,
}


def setting(
    default: Any,
    *,
    low: Bound = None,
    high: Bound = None,
    above: Bound = None,
    below: Bound = None,
) -> Any:
    """A setting from `low` or above `above`, to `high` or below `below`."""
    bounds = {"at least": low, "more than": above, "at most": high, "less than": below}
    return dataclasses.field(default=default, metadata=bounds)


def inner(*, kw_only: Literal[False] = False) -> Any:
    """A setting that is a value itself; it may be given without its name: `Projected(Dot())`."""
    return dataclasses.field(kw_only=kw_only)


# To a type checker, what `setting` returns is a default, and what `inner` returns is none.
@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(dataclasses.field, inner)
)
class Value:
    """Settings with types and bounds: values of equal class and settings are equal.

    Raises:
      InputError: a setting is not of its type or out of bounds, or is an array.
    """

    name: ClassVar[str]  # on the command line; that of the class if it gives none
    also: ClassVar[str] = ""  # what text of this kind may be besides a name with settings
    may_be_own: ClassVar[bool] = False  # whether text may name a class of the user's own
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field]]

    def __init_subclass__(cls) -> None:
        """Makes a class of values a dataclass, after checking the names of its settings."""
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        typing.no_type_check(cls.__init__)  # not before `__post_init__` has converted settings
        for base in cls.__mro__[1:]:
            settings = dataclasses.fields(base) if dataclasses.is_dataclass(base) else ()
            taken = {*vars(base)} - {entry.name for entry in settings}
            for entry in dataclasses.fields(cls):
                if entry.name in taken:
                    raise InputError(
                        f"{cls.__name__} has a setting {entry.name}, which {base.__name__} has "
                        "another use for: take another name, or leave out its type to override it"
                    )

    def __new__(cls, *unnamed: Any, **named: Any):
        """Refuses settings that are given without their names, except inner values."""
        most = sum(not entry.kw_only for entry in dataclasses.fields(cls))
        if len(unnamed) > most:
            raise nameless(cls, cls.__name__, unnamed[most])
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Converts settings to their types, so that `T(tau=2)` equals `T(tau=2.0)`."""
        types = typing.get_type_hints(type(self))
        for entry in dataclasses.fields(self):
            value = _checked(self, entry, types[entry.name])
            object.__setattr__(self, entry.name, value)

    @classmethod
    def from_number(cls, text: str) -> Any:
        """The value of this kind that a number alone stands for, if any does.

        Raises:
          InputError: none does.
        """
        what = cls.name.replace("_", " ")
        raise InputError(f"{text} is not {'an' if what[0] in 'aeiou' else 'a'} {what}")

    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {e.name: getattr(self, e.name) for e in dataclasses.fields(self)}

    @property
    def word(self) -> str:
        """Its name on the command line: that of the class, with the module of the user's own."""
        module = type(self).__module__
        return self.name if module.startswith("attn_jax.") else f"{module}:{type(self).__name__}"

    def __str__(self) -> str:
        """The value as the command line takes it, with all settings."""
        return _text(self, dataclasses.fields(self), str)

    def brief(self) -> str:
        """The same with those settings that differ from their defaults."""
        entries = dataclasses.fields(self)
        told = [entry for entry in entries if getattr(self, entry.name) != entry.default]
        return _text(self, told, lambda value: value.brief())


def nameless(kind: type[Value], word: str, given: object) -> InputError:
    """The error about a setting that is given without its name.

    Args:
      kind: the class of the value.
      word: its name, as the user has given it.
      given: the setting.
    """
    types, entries = typing.get_type_hints(kind), dataclasses.fields(kind)
    if not entries:
        return InputError(f"{word} has no settings, got {str(given)!r}")
    held = (
        f"; declared as `{entry.name}: {types[entry.name].__name__} = inner()`, it needs no name"
        for entry in entries
        if entry.kw_only and is_value(types[entry.name])
    )
    allowed = ", ".join(entry.name for entry in entries)
    hint = next(held, "")
    return InputError(f"{word}: {given} stands without a name; allowed: {allowed}{hint}")


def is_value(kind: Any) -> bool:
    """Whether a type of settings is one of values."""
    return isinstance(kind, type) and issubclass(kind, Value)


def _text(value: Value, told: Sequence[dataclasses.Field], write: Callable[[Value], str]) -> str:
    words = []
    for entry in told:
        held = getattr(value, entry.name)
        name = f"{entry.name}=" if entry.kw_only else ""
        words.append(f"{name}{write(held) if isinstance(held, Value) else written(held)}")
    return f"{value.word}({','.join(words)})" if words else value.word


def _checked(owner: Value, entry: dataclasses.Field, kind: Any) -> Any:
    """The value of a setting as its type."""
    value, what = getattr(owner, entry.name), f"{owner.name}: {entry.name}"
    is_array = getattr(value, "shape", None) is not None and not isinstance(value, numbers.Number)
    if is_array:
        raise InputError(f"{what} must be a plain number: arrays are parameters, made by `init`")
    try:
        value = converted(value, kind)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be {_described(kind)}, got {value!r}") from None
    _check_bounds(what, value, entry.metadata)
    return value


def converted(value: Any, kind: Any) -> Any:
    """A value as a type: a number, text, a choice of `Literal` or `Enum`, a tuple, a union.

    Raises:
      TypeError, ValueError, OverflowError: it is none of that type.
    """
    choices = typing.get_args(kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        for one in choices:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                return converted(value, one)
    elif origin is Literal:
        for one in choices:
            if type(value) is type(one) and value == one:
                return one
    elif origin is tuple and isinstance(value, tuple | list):
        each = choices[:1] * len(value) if choices[1:] == (...,) else choices
        return tuple(converted(one, of) for one, of in zip(value, each, strict=True))
    elif kind in (int, float):
        number = kind(value)
        if isinstance(value, bool | str) or number != value or not math.isfinite(number):
            raise ValueError
        if kind is int and abs(number) > LARGEST:
            raise ValueError("too large for JAX")
        return number
    elif isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value] if isinstance(value, str) and value in kind.__members__ else kind(value)
    elif not isinstance(origin or kind, type) or isinstance(value, origin or kind):
        return value  # of any other type, such as a class of values or Callable[..., Array]
    raise ValueError


def _described(kind: Any) -> str:
    """A type in an error message."""
    if typing.get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, typing.get_args(kind)))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(kind.__members__)}"
    if kind in (int, float):
        return f"of type {kind.__name__}"
    name = getattr(kind, "__name__", str(kind)) if typing.get_origin(kind) is None else str(kind)
    return f"a {name}"


def _check_bounds(what: str, value: Any, bounds: Mapping[str, Bound]) -> None:
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if value is None:  # of a setting that may be left open
        return
    if all(BOUNDS[name](value, bound) for name, bound in given.items()):
        return
    told = [f"{name} {bound:g}" for name, bound in given.items()]
    raise InputError(f"{what} must be {' and '.join(told)}, got {value:g}")
