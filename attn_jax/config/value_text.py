"""From text to values: `location_aware(width=5)`, `my_score:Sharp(scale=2)`, `adam(beta2=0.98)`."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from attn_jax.attention import catalogue
from attn_jax.attention.plain import PLAIN, as_part
from attn_jax.attention.protocol import Score
from attn_jax.errors import InputError, choose
from attn_jax.settings.grammar import (
    Named,
    Number,
    choose_or_import,
    parse,
    parse_value,
    parse_values,
    written,
)
from attn_jax.settings.value import Value, is_value, nameless

Kind = TypeVar("Kind", bound=Value)
# By class of values, such as `Score`. A table has subclasses of its key, which no type can say.
Tables = Mapping[Any, Mapping[str, type[Any]]]
PARTS: Tables = catalogue.TABLES


def read(kind: type[Kind], text: str, tables: Tables = PARTS) -> Kind:
    """The value that a text stands for; `read(Score, str(score)) == score`.

    Args:
      kind: such as `Score`: the base class of what the text may stand for.
      text: a name such as `additive` or `location_aware(width=5)`; of kinds that may be the user's
        own, also `module:name` of a class, and for parts of mechanisms of a function.
      tables: for each kind that the text and its settings may have, the classes by name.

    Raises:
      InputError: there is no such name, module, class or setting.
    """
    return _made(kind, parse_value(text, _what(kind), kind.also), tables)


def listed(kind: type[Value], text: str) -> list[str]:
    """The texts that a text joins by `+`.

    Raises:
      InputError: the text is not of this form.
    """
    return list(map(str, parse_values(text, _what(kind), kind.also)))


def kind_of(text: str, tables: Tables = PARTS) -> type[Any]:
    """The kind of what a text stands for, such as `Score`; a function is taken for a score.

    Args:
      text: a name, with or without settings.
      tables: for each kind that it may have, the classes by name.

    Raises:
      InputError: there is no such name, module or class.
    """
    named = parse(text, "part")
    known = {name: one for table in tables.values() for name, one in table.items()}
    found = choose_or_import(known, named.name, "part")
    if not isinstance(found, type):
        return Score
    for kind in tables:
        if issubclass(found, kind):
            return kind
    names = ", ".join(f"attn_jax.{kind.__name__}" for kind in tables)
    raise InputError(f"{named.name!r} is no part: it is not derived from one of {names}")


def canonical(kind: type[Value], text: str, tables: Tables = PARTS) -> str:
    """The text with all settings, as runs record it; the user's own code is not imported."""
    named = parse_value(text, _what(kind), kind.also)
    return str(named) if _is_own(named) else str(_made(kind, named, tables))


def brief(kind: type[Value], text: str, tables: Tables = PARTS) -> str:
    """The text without the settings that have their defaults."""
    named = parse_value(text, _what(kind), kind.also)
    return text if _is_own(named) else _made(kind, named, tables).brief()


def _what(kind: type[Value]) -> str:
    return kind.name.replace("_", " ")


def _is_own(named: Any) -> bool:
    """Whether a text names code of the user's own."""
    return isinstance(named, Named) and any(":" in one.name for one in named.all())


def _plain(value: Any) -> Any:
    """A setting that holds no value of a class: a word is text."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Number):
        return value.value
    return str(value) if isinstance(value, Named) else value


def _made(kind: type[Kind], named: Any, tables: Tables) -> Kind:
    if not isinstance(named, Named):
        return kind.from_number(written(named))
    if kind.may_be_own:
        return _known_or_own(kind, named, tables)
    try:
        found = choose(tables[kind], named.name, _what(kind))
    except InputError as error:
        raise InputError(f"{error}{kind.also}") from None
    return _with_settings(found, named, tables)


def _known_or_own(kind: type[Value], named: Named, tables: Tables) -> Any:
    """A value of a known class or of the user's own; for a part, a function of the user's own."""
    found = choose_or_import(tables[kind], named.name, _what(kind))
    if not isinstance(found, type):
        if named.settings or kind not in PLAIN:
            why = "has no settings" if named.settings else f"is no {_what(kind)}"
            raise InputError(
                f"{named.name} is a function, which {why}: write a class derived from "
                f"attn_jax.{kind.__name__}"
            )
        return as_part(kind, found, named.name)
    if not issubclass(found, kind):
        raise InputError(
            f"cannot use {named.name!r} as a {_what(kind)}: it is not derived from attn_jax."
            f"{kind.__name__}"
        )
    return _with_settings(found, named, tables)


def _with_settings(found: type[Kind], named: Named, tables: Tables) -> Kind:
    entries = {entry.name: entry for entry in dataclasses.fields(found)}
    types = get_type_hints(found)
    unnamed = (name for name, entry in entries.items() if not entry.kw_only)
    given: dict[str, Any] = {}
    for setting, value in named.settings:
        name = setting or next(unnamed, "")
        if not entries or not name:
            raise nameless(found, named.name, setting or value)
        choose(entries, name, f"setting of {named.name}")
        if name in given:
            raise InputError(f"{named} gives {name} twice")
        if is_value(types[name]):
            given[name] = _made(types[name], value, tables)
        else:
            given[name] = _plain(value)
    missing = [n for n, entry in entries.items() if entry.default is dataclasses.MISSING]
    for name in missing:
        if name not in given:
            told = (f"{n}=…" if entries[n].kw_only else n for n in missing)
            raise InputError(f"{named.name} needs {name}: {named.name}({', '.join(told)})")
    return found(**given)
