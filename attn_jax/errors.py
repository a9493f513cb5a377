"""The exception for input that cannot be used; its message is one sentence for the user."""

import difflib
import textwrap
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
MOST_NAMES = 20  # the names of a larger table are not listed if one of them is similar


class InputError(ValueError):
    """Input that cannot be used. Programs print its message and exit with status 2."""


def reason(error: BaseException) -> str:
    """The type of an exception and the first line of its message, in at most 300 characters.

    If that line ends with a colon, the next one follows.
    """
    first, *others = [line for line in str(error).splitlines() if line.strip()] or [""]
    following = others[:1] if first.endswith(":") else []
    line = type(error).__name__ + (f": {' '.join([first, *following])}" if first else "")
    return textwrap.shorten(line, 300, placeholder=" …")


def choose(table: Mapping[str, T], name: str, what: str) -> T:
    """`table[name]`.

    Raises:
      InputError: the name is not in the table. The message suggests a similar name, if there is
        one, and lists all names, unless there are many and one of them is similar.
    """
    if name in table:
        return table[name]
    close = difflib.get_close_matches(str(name), table, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    allowed = "" if close and len(table) > MOST_NAMES else f"; allowed: {', '.join(table)}"
    raise InputError(f"unknown {what} {name!r}{hint}{allowed}")
