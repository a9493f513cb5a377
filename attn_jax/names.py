"""Names: with settings, as options have them (`entmax(alpha=1.25)`), and of heads."""

import ast
import functools
import importlib
import inspect
import math
import re
import traceback
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError, choose, reason
from attn_jax.options import LARGEST


def parse(text: str, what: str) -> tuple[str, dict[str, str]]:
    """The name in a text and the texts of its settings.

    Raises:
      InputError: the text is not of that form, or gives a setting twice.
    """
    parsed = re.fullmatch(r"([\w.]+:?\w*)(?:\((.*)\))?", text.strip())
    if not parsed:
        raise InputError(f"cannot read {what} {text!r}: write name or name(setting=number)")
    name, inside = parsed.groups()
    given: dict[str, str] = {}
    for assignment in filter(None, map(str.strip, (inside or "").split(","))):
        setting, _, value = map(str.strip, assignment.partition("="))
        if setting in given:
            raise InputError(f"{text.strip()!r} gives {setting} twice")
        given[setting] = value
    return name, given


def numbers(
    name: str, given: Mapping[str, str], settings: Mapping[str, int | float]
) -> dict[str, int | float]:
    """The settings as numbers of the types that their defaults have.

    Raises:
      InputError: there is no such setting, or its text is no such number.
    """
    return {setting: _number(name, setting, text, settings) for setting, text in given.items()}


def _number(name: str, setting: str, text: str, settings: Mapping[str, int | float]) -> int | float:
    if not settings:
        raise InputError(f"{name} has no settings, got {setting!r}")
    default = choose(settings, setting, f"setting of {name}")
    try:
        value = ast.literal_eval(text)
        number = type(default)(value)
        if number != value or isinstance(value, bool) or not math.isfinite(number):
            raise ValueError("not a whole number, or not a number")
        if isinstance(number, int) and abs(number) > LARGEST:
            raise ValueError("too large for JAX")
        return number
    except (ValueError, SyntaxError, TypeError, OverflowError):
        message = f"{name}: {setting} must be of type {type(default).__name__}, got {text!r}"
        raise InputError(message) from None


def choose_or_import(table: Mapping[str, Callable], name: str, what: str) -> Callable:
    """What a table has under a name, or the user's own under `module:name`.

    Raises:
      InputError: there is no such name or module.
    """
    if ":" not in name:
        return choose(table, name, what)
    module, _, attribute = name.partition(":")
    use = f"cannot use {name!r} as {'an' if what[0] in 'aeiou' else 'a'} {what}"
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        hint = "; write module:name, without .py" if module.endswith(".py") else ""
        raise InputError(f"{use}: {error}{hint}") from error
    except Exception as error:  # whatever a user's own module raises
        raise InputError(f"{use}: {failure(error, [module])}") from error
    if not callable(found):
        raise InputError(f"{use}: it is not a function or class")
    return found


def failure(error: Exception, modules: Container[str]) -> str:
    """What went wrong in a user's own modules, and the last line of theirs that was reached."""
    reached = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in modules
    ]
    return reason(error) + "".join(reached[-1:])


def keywords_of(function: Callable) -> dict[str, Any]:
    """The keyword-only arguments of a function with their defaults."""
    parameters = inspect.signature(function).parameters
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return {name: p.default for name, p in parameters.items() if p.kind is keyword_only}


def choose_with_settings(table: Mapping[str, Callable], text: str, what: str) -> Callable:
    """The function of a table that a text names, with the settings that it gives.

    Settings are the keyword-only arguments of the function.

    Raises:
      InputError: there is no such function or setting.
    """
    name, given = parse(text, what)
    function = choose(table, name, what)
    return functools.partial(function, **numbers(name, given, keywords_of(function)))


def head_name(layer: int, head: int) -> str:
    """What to call a head of a layer, both counted from 1."""
    return f"layer {layer}, head {head}"


def find_head(which: str, layers: int, heads: int, option: str) -> tuple[int, int] | None:
    """The layer and head, from 0, that an option names as in `2.1`; None for `mean`, all of them.

    Raises:
      InputError: there is no such layer or head.
    """
    if which == "mean":
        return None
    layer, _, head = which.partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise InputError(f"{option} must be mean or layer.head as in 2.1, got {which!r}")
    if not (1 <= int(layer) <= layers and 1 <= int(head) <= heads):
        raise InputError(f"{option}={which} does not exist: {layers} layers of {heads} heads do")
    return int(layer) - 1, int(head) - 1
