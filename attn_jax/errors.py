"""The exception for input that cannot be used, and how errors are told to the user."""

import difflib
import textwrap
import traceback
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
MOST_NAMES = 20  # the names of a larger table are not listed if one of them is similar


class InputError(ValueError):
    """Input that cannot be used. Programs print its message and exit with status 2."""


class Terminated(KeyboardInterrupt):
    """SIGTERM from a scheduler or `kill`: unlike Ctrl-C, it does not reach child processes."""


class Paused(KeyboardInterrupt):
    """Training has saved and ended, as a signal told it to: the same call goes on from there."""


TRY_AGAIN = 75  # the exit status of a program that a signal has ended: the same command goes on
INTERRUPTED = 130  # the exit status of a program after an interrupt, as shells have it


def reason(error: BaseException) -> str:
    """The type of an exception and the first line of its message, in at most 300 characters.

    If that line ends with a colon, the next one follows.
    """
    first, *others = [line for line in str(error).splitlines() if line.strip()] or [""]
    following = others[:1] if first.endswith(":") else []
    line = type(error).__name__ + (f": {' '.join([first, *following])}" if first else "")
    return textwrap.shorten(line, 300, placeholder=" …")


def failure(error: BaseException, modules: Container[str]) -> str:
    """An error in a user's own modules, and the last line of these modules in its traceback."""
    return reason(error) + place(error, modules)


def place(error: BaseException, modules: Container[str]) -> str:
    """The last line of these modules in the traceback of an error, in brackets, or nothing."""
    reached = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "") in modules
    ]
    return "".join(reached[-1:])


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
