"""Names in options: entries of tables, with settings (`entmax(alpha=1.25)`), or `module:name`."""

import ast
import functools
import importlib
import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from attn_jax.errors import InputError, choose, failure, place
from attn_jax.options import LARGEST


def parse(text: str, what: str) -> tuple[str, dict[str, str]]:
    """The name in a text such as `entmax(alpha=1.25)`, and its settings as text.

    Raises:
      InputError: the text is not of this form, or gives a setting twice.
    """
    parsed = re.fullmatch(r"([\w.-]+:?\w*)(?:\((.*)\))?", text.strip())
    if not parsed:
        raise InputError(f"malformed {what} {text!r}: write name or name(setting=number)")
    name, inside = parsed.groups()
    settings: dict[str, str] = {}
    for assignment in filter(None, map(str.strip, (inside or "").split(","))):
        setting, _, value = map(str.strip, assignment.partition("="))
        if setting in settings:
            raise InputError(f"{text.strip()!r} gives {setting} twice")
        settings[setting] = value
    return name, settings


def numbers(
    name: str, texts: Mapping[str, str], settings: Mapping[str, int | float]
) -> dict[str, int | float]:
    """Converts settings from text to numbers of the types of their defaults.

    Args:
      name: of the part, for error messages.
      texts: the settings as text.
      settings: all settings of the part, with their defaults.

    Raises:
      InputError: there is no such setting, or its text is not a number of that type.
    """
    return {setting: _number(name, setting, text, settings) for setting, text in texts.items()}


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
    """The entry of a table, or for `module:name`, a function or class of the user's own.

    Raises:
      InputError: the name is not in the table; or the module cannot be imported, or has no function
        or class of that name.
    """
    if ":" not in name:
        try:
            return choose(table, name, what)
        except InputError as error:
            raise InputError(f"{error}, or module:name of your own") from None
    module, _, attribute = name.partition(":")
    use = f"cannot use {name!r} as {'an' if what[0] in 'aeiou' else 'a'} {what}"
    found = None
    try:
        found = importlib.import_module(module)
        imported = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        hint = ""
        if module.endswith(".py"):
            hint = "; write module:name, without .py"
        elif isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            hint = "; Python looks for it on PYTHONPATH, and last in the current folder"
        elif found is not None:
            its_file = getattr(found, "__file__", None) or "part of Python"
            hint = f"; the module that Python finds first under this name is {its_file}"
        raise InputError(f"{use}: {error}{place(error, [module])}{hint}") from error
    except (Exception, SystemExit) as error:  # anything that a user's own module raises
        raise InputError(f"{use}: {failure(error, [module])}") from error
    if not callable(imported):
        raise InputError(f"{use}: it is not a function or class")
    return imported


def keywords_of(function: Callable) -> dict[str, Any]:
    """The keyword-only arguments of a function, with their defaults."""
    parameters = inspect.signature(function).parameters
    keyword_only = inspect.Parameter.KEYWORD_ONLY
    return {name: p.default for name, p in parameters.items() if p.kind is keyword_only}


def choose_with_settings(table: Mapping[str, Callable], text: str, what: str) -> Callable:
    """The function of a table that a text names, bound to the settings in the text.

    Settings are the keyword-only arguments of the function.

    Raises:
      InputError: there is no such function or setting.
    """
    name, texts = parse(text, what)
    function = choose(table, name, what)
    return functools.partial(function, **numbers(name, texts, keywords_of(function)))
