"""Shapes of values that were read from JSON, and the check that a value has one."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attn_jax.errors import InputError

LARGEST = 2**53  # of whole numbers: up to it, floats hold them all
MISSING = object()


class Kind(NamedTuple):
    """A kind of values."""

    name: str  # with its article
    holds: Callable[[Any], bool]


# A kind, the shapes of the values under some names, or the shape of each entry of a list.
Shape = Kind | Mapping[str, "Shape"] | list["Shape"]


def _is_whole(value: Any, least: int = -LARGEST) -> bool:
    return type(value) is int and least <= value <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    """Whether it is text that a file can hold: halves of a surrogate pair are none."""
    return isinstance(value, str) and (value.isascii() or not re.search("[\ud800-\udfff]", value))


def _is_setting(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value) or _is_text(value)


NUMBER = Kind("a number", _is_number)
FINITE = Kind("a finite number", _is_finite)
RATE = Kind("a finite number above 0", lambda value: _is_finite(value) and value > 0)
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number from 1", lambda value: _is_whole(value, 1))
PLACE = Kind("a whole number from 0", lambda value: _is_whole(value, 0))
TEXT = Kind("text", _is_text)
SETTING = Kind("text, a number, true, false or null", _is_setting)


def several(kind: Kind, least: int = 0) -> Kind:
    """Lists of values of a kind, with at least so many."""
    return Kind(
        f"a list of {least} or more entries, each {kind.name}",
        lambda value: (
            isinstance(value, list) and len(value) >= least and all(map(kind.holds, value))
        ),
    )


def table(kind: Kind) -> Kind:
    """Values of a kind under any names."""
    return Kind(
        f"a table, each entry {kind.name}",
        lambda value: (
            isinstance(value, dict)
            and all(map(_is_text, value))
            and all(map(kind.holds, value.values()))
        ),
    )


def maybe(kind: Kind, none: Any = MISSING) -> Kind:
    """Values of a kind, or what stands for none: by default, that the name is missing."""
    return Kind(kind.name, lambda value: value is none or kind.holds(value))


def check(value: Any, shape: Shape, where: str) -> None:
    """Raises InputError, which names the place, if a value does not have a shape.

    Args:
      value: as read from JSON; `MISSING` where there is none.
      shape: the shape.
      where: the file and the place in it.
    """
    if isinstance(shape, Kind) and shape.holds(value):
        return
    if value is MISSING:
        raise InputError(f"{where} is missing")
    if isinstance(shape, Kind):
        raise InputError(f"{where} must be {shape.name}")
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            raise InputError(f"{where} must be a list of 1 or more entries")
        for number, entry in enumerate(value, start=1):
            check(entry, shape[0], f"{where} {number}")
    else:
        if not isinstance(value, dict):
            raise InputError(f"{where} must be a table")
        for name, part in shape.items():
            check(value.get(name, MISSING), part, f"{where} {name}")
