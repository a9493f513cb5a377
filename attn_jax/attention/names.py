"""From a text such as `entmax(alpha=1.25)` or `my_module:my_score` to the part that it names."""

import importlib
from collections.abc import Callable, Mapping

from attn_jax.attention.parts import Part
from attn_jax.errors import InputError, choose
from attn_jax.names import numbers, parse


def find(table: Mapping[str, Callable], text: str, what: str) -> Part:
    """The part that a text such as `additive`, `entmax(alpha=1.25)` or `module:function` names.

    Raises:
      InputError: there is no such name, module, function or setting.
    """
    name, given = parse(text, what)
    found = Part(_from_module(name, what) if ":" in name else choose(table, name, what))
    return Part(found.function, tuple(sorted(numbers(name, given, found.settings).items())))


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
