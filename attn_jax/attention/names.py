"""From a text such as `entmax(alpha=1.25)` or `my_module:my_score` to the part that it names."""

import ast
import importlib
import re
from collections.abc import Callable, Mapping

from attn_jax.attention.parts import Part
from attn_jax.errors import InputError, choose


def find(table: Mapping[str, Callable], text: str, what: str) -> Part:
    """The part that a text such as `additive`, `entmax(alpha=1.25)` or `module:function` names.

    Raises:
      InputError: there is no such name, module, function or setting.
    """
    parsed = re.fullmatch(r"([\w.]+:?\w*)(?:\((.*)\))?", text.strip())
    if not parsed:
        raise InputError(f"cannot read {what} {text!r}: write name or name(setting=number)")
    name, inside = parsed.groups()
    found = Part(_from_module(name, what) if ":" in name else choose(table, name, what))
    given = []
    for assignment in filter(None, map(str.strip, (inside or "").split(","))):
        setting, _, value = map(str.strip, assignment.partition("="))
        if setting in dict(given):
            raise InputError(f"{text.strip()!r} gives {setting} twice")
        given.append((setting, _number(found, name, setting, value)))
    return Part(found.function, tuple(sorted(given)))


def _from_module(path: str, what: str) -> Callable:
    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        hint = "; write module:function, without .py" if module.endswith(".py") else ""
        raise InputError(f"cannot use {path!r} as a {what}: {error}{hint}") from error
    if not callable(function):
        raise InputError(f"cannot use {path!r} as a {what}: it is not a function")
    return function


def _number(found: Part, name: str, setting: str, text: str) -> int | float:
    if not found.settings:
        raise InputError(f"{name} has no settings, got {setting!r}")
    default = choose(found.settings, setting, f"setting of {name}")
    try:
        return type(default)(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        message = f"{name}: {setting} must be of type {type(default).__name__}, got {text!r}"
        raise InputError(message) from None
