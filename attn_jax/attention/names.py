"""From a text such as `entmax(alpha=1.25)` or `my_module:my_score` to the part that it names."""

from collections.abc import Callable, Mapping

from attn_jax.attention.parts import Part
from attn_jax.names import choose_or_import, numbers, parse


def find(table: Mapping[str, Callable], text: str, what: str) -> Part:
    """The part that a text such as `additive`, `entmax(alpha=1.25)` or `module:function` names.

    Raises:
      InputError: there is no such name, module, function or setting.
    """
    name, given = parse(text, what)
    found = Part(choose_or_import(table, name, what))
    return Part(found.function, tuple(sorted(numbers(name, given, found.settings).items())))
