"""From text to what options hold, and back: `location_aware(width=5)`, `my_score:Sharp(scale=2)`.

The type of an option says what it holds: a value of a kind such as `Score`, a value or None
(`auto` in text), a tuple of values (joined by `+`, or `none`), or a number or text.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from attn_jax.attention import catalogue
from attn_jax.attention.plain import PLAIN, as_part
from attn_jax.attention.protocol import Score
from attn_jax.errors import InputError, choose
from attn_jax.settings.grammar import (
    Named,
    Number,
    choose_or_import,
    own_names,
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

AUTO = "auto"  # what stands for None, such as the normalizer of the score
NONE = "none"  # what stands for no values


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
    return made(kind, parse_value(text, _what(kind), kind.also), tables)


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


def held(of_option: Any) -> type[Value] | None:
    """The kind of the values that an option of a type holds; None for numbers and text."""
    kinds = (of_option, *typing.get_args(of_option))
    return next(filter(is_value, kinds), None)


def holds_several(of_option: Any) -> bool:
    """Whether an option of a type holds a tuple of values."""
    return typing.get_origin(of_option) is tuple


def may_be_none(of_option: Any) -> bool:
    """Whether an option of a type may hold None."""
    return types.NoneType in typing.get_args(of_option)


def read_option(of_option: Any, text: str, tables: Tables) -> Any:
    """What an option that holds values holds for a text.

    What names the user's own code stays as it is written (`Named`), and is not imported.

    Raises:
      InputError: it stands for nothing that the option may hold.
    """
    kind = held(of_option) or Value

    def known(named: Any) -> Any:
        return named if is_own(named) else made(kind, named, tables)

    if holds_several(of_option):
        each = [] if text == NONE else parse_values(text, _what(kind), kind.also)
        return tuple(map(known, each))
    if text == AUTO and may_be_none(of_option):
        return None
    return known(parse_value(text, _what(kind), kind.also))


def imported(of_option: Any, value: Any, tables: Tables) -> Any:
    """What an option holds, with the user's own code in the place of its name.

    Raises:
      InputError: it names no such module or class, or one of another kind.
    """
    if isinstance(value, tuple):
        return tuple(imported(of_option, each, tables) for each in value)
    kind = held(of_option)
    return made(kind, value, tables) if kind and isinstance(value, Named) else value


def text_of(value: Any, write: Callable[[Any], str] = str) -> str:
    """What an option holds as text, with all settings: it is read back to an equal value.

    Args:
      value: what it holds.
      write: how a single value is written.
    """
    if isinstance(value, tuple):
        return "+".join(text_of(each, write) for each in value) or NONE
    return AUTO if value is None else write(value)


def brief(value: Any) -> str:
    """What an option holds, as people write it: without settings that have their defaults."""
    return text_of(value, lambda one: one.brief() if isinstance(one, Value) else str(one))


def _what(kind: type[Value]) -> str:
    return kind.name.replace("_", " ")


def is_own(named: Any) -> bool:
    """Whether what a text stands for has code of the user's own."""
    return isinstance(named, Named) and bool(own_names(str(named)))


def _plain(value: Any) -> Any:
    """A setting that holds no value of a class: a word is text."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, Number):
        return value.value
    return str(value) if isinstance(value, Named) else value


def made(kind: type[Kind], named: Any, tables: Tables) -> Kind:
    """The value that a name with settings, or a number, stands for; see `read`."""
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
        given[name] = made(types[name], value, tables) if is_value(types[name]) else _plain(value)
    missing = [n for n, entry in entries.items() if entry.default is dataclasses.MISSING]
    for name in missing:
        if name not in given:
            told = (f"{n}=…" if entries[n].kw_only else n for n in missing)
            raise InputError(f"{named.name} needs {name}: {named.name}({', '.join(told)})")
    return found(**given)
