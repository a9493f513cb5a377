"""Options: fields of dataclasses with help texts and bounds, and checks of their values."""

import dataclasses
import math
import numbers
import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast

from attn_jax.errors import InputError

LARGEST = 2**31 - 1  # the largest int32, which is JAX's default integer type


def option(
    default: Any, help: str, *, low: int | float | None = None, high: int | float | None = None
) -> Any:
    """A field with a help text (including the unit) and the smallest and largest value allowed."""
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


class Duration(float):
    """Seconds, in text with a unit: `90s`, `10min`, `1.5h`, `2d`, or seconds without one."""

    UNITS: ClassVar = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    described = "a duration such as 90s, 10min, 1.5h or 2d"  # for messages

    def __new__(cls, given: Any) -> "Duration":
        """Reads a text or a number of seconds.

        Raises:
          ValueError: it is neither.
        """
        if not isinstance(given, str):
            return super().__new__(cls, given)
        text = given.strip()
        unit = next((each for each in cls.UNITS if text.endswith(each)), "s")
        return super().__new__(cls, float(text.removesuffix(unit)) * cls.UNITS[unit])

    def __str__(self) -> str:
        """The text in the largest unit of which it is a whole number."""
        for unit, seconds in self.UNITS.items():
            if self and self % seconds == 0:
                return f"{self / seconds:.0f}{unit}"
        return f"{float(self)!r}s" if self else "0"

    __repr__ = __str__


def path(help: str) -> Any:
    """A field that holds a path, made absolute so that a run can be continued from anywhere."""
    return dataclasses.field(default="", metadata={"help": help, "path": True})


def fields(node: Any, prefix: str = "") -> Iterator[tuple[str, dataclasses.Field]]:
    """The name (such as `model.score`) and field of every option of a dataclass, in order."""
    for entry in dataclasses.fields(node):
        if dataclasses.is_dataclass(entry.type) and "help" not in entry.metadata:
            yield from fields(entry.type, f"{prefix}{entry.name}.")
        else:
            yield f"{prefix}{entry.name}", entry


def absolute(entry: dataclasses.Field, value: Any) -> Any:
    """A value of an option, made absolute where it is a path.

    Raises:
      InputError: it is a URL.
    """
    if entry.metadata.get("path") and value:
        return os.path.abspath(expand(local(str(value))))
    return value


def local(value: Any) -> Any:
    """A value that is no URL, which would be taken for the path of a local file."""
    if isinstance(value, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value):
        raise InputError(f"{value} is a URL: only local files are read and written")
    return value


def expand(path: str) -> str:
    """A path with the user's folder in place of ~.

    Raises:
      InputError: the user has no folder.
    """
    expanded = os.path.expanduser(path)
    if expanded == path and path.startswith("~/"):
        raise InputError(f"there is no home folder for {path}: write out the path")
    return expanded


def checked(name: str, entry: dataclasses.Field, value: Any) -> Any:
    """Converts a number or text, which may stand for a number, to the type of an option.

    Raises:
      InputError: it is of the wrong type, out of bounds, or text of several lines.
    """
    original, kind = value, cast(type[Any], entry.type)
    try:
        if original is None or isinstance(original, bool):
            raise TypeError("neither text nor a number")
        value = kind(original)
        if kind is int and isinstance(original, numbers.Real) and original != value:
            raise ValueError("not whole")
    except (ValueError, TypeError, OverflowError):
        wanted = getattr(kind, "described", f"of type {kind.__name__}")
        message = f"{name} must be {wanted}, got {original!r}"
        raise InputError(message) from None
    if kind is str and (value.splitlines() not in ([], [value]) or not _is_text(value)):
        raise InputError(f"{name} must be a single line of text, got {value!r}")
    low, high = entry.metadata.get("low"), entry.metadata.get("high")
    if high is None and kind is int:
        high = LARGEST
    if low is not None and not value >= low:
        raise InputError(f"{name} must be at least {low}, got {value}")
    if high is not None and not value <= high:
        raise InputError(f"{name} must be at most {high}, got {value}")
    if issubclass(kind, float) and not math.isfinite(value):
        raise InputError(f"{name} must be a finite number, got {value}")
    return value


def _is_text(value: str) -> bool:
    """Whether a flag file (UTF-8) can hold it: invalid bytes of a command line are surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
