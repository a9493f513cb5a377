"""From text to parts of mechanisms: `location_aware(width=5)`, `my_score:Sharp(scale=2)`."""

import dataclasses
from typing import Any, get_type_hints

from attn_jax.attention.catalogue import TABLES, Kind
from attn_jax.attention.plain import as_part
from attn_jax.attention.protocol import Part, Score
from attn_jax.errors import InputError, choose
from attn_jax.names import Named, choose_or_import, parse


def read(kind: type[Kind], text: str, units: int | None = None) -> Kind:
    """The part that a text stands for; `read(Score, str(part)) == part`.

    Args:
      kind: `Score`, `Window` or `Normalizer`.
      text: a name such as `additive` or `location_aware(width=5)`, or `module:name` of a class or
        a function of the user's own.
      units: of every part that has hidden units and does not give their number.

    Raises:
      InputError: there is no such name, module, class or setting.
    """
    return _made(kind, parse(text, kind.__name__.lower()), units)


def kind_of(text: str) -> type[Part]:
    """Whether a text stands for a score, a window or a normalizer; a function is taken for a score.

    Raises:
      InputError: there is no such name, module or class.
    """
    named = parse(text, "part")
    known = {name: one for table in TABLES.values() for name, one in table.items()}
    found = choose_or_import(known, named.name, "part")
    if not isinstance(found, type):
        return Score
    for kind in TABLES:
        if issubclass(found, kind):
            return kind
    names = ", ".join(f"attn_jax.{kind.__name__}" for kind in TABLES)
    raise InputError(f"{named.name!r} is no part: it is not derived from one of {names}")


def canonical(kind: type[Part], text: str, units: int | None = None) -> str:
    """The text with all settings, as runs record it; the user's own code is not imported."""
    named = parse(text, kind.__name__.lower())
    own = any(":" in one.name for one in named.all())
    return str(named) if own else str(_made(kind, named, units))


def brief(kind: type[Part], text: str) -> str:
    """The text without the settings that have their defaults."""
    named = parse(text, kind.__name__.lower())
    return text if any(":" in one.name for one in named.all()) else _made(kind, named, None).brief()


def units_in(text: str) -> set[int]:
    """The numbers of hidden units in the text of a part and of the parts that it holds."""
    settings = [of_setting for named in parse(text, "part").all() for of_setting in named.settings]
    return {value for name, value in settings if name == "units"}


def without_units(kind: type[Part], text: str) -> str:
    """The text without numbers of hidden units."""
    return str(parse(text, kind.__name__.lower()).without("units"))


def _made(kind: type[Kind], named: Named | int | float, units: int | None) -> Kind:
    what = kind.__name__.lower()
    if not isinstance(named, Named):
        raise InputError(f"{named} is not a {what}")
    found = choose_or_import(TABLES[kind], named.name, what)
    if not isinstance(found, type):
        if named.settings:
            raise InputError(
                f"{named.name} is a function, which has no settings: write a class derived from "
                f"attn_jax.{kind.__name__}"
            )
        return as_part(kind, found, named.name)
    if not issubclass(found, kind):
        raise InputError(
            f"cannot use {named.name!r} as a {what}: it is not derived from attn_jax."
            f"{kind.__name__}"
        )
    return _with_settings(found, named, units)


def _with_settings(found: type[Kind], named: Named, units: int | None) -> Kind:
    entries = {entry.name: entry for entry in dataclasses.fields(found)}
    types = get_type_hints(found)
    unnamed = (name for name, entry in entries.items() if not entry.kw_only)
    given: dict[str, Any] = {}
    for setting, value in named.settings:
        name = setting or next(unnamed, "")
        if not entries:
            raise InputError(f"{named.name} has no settings, got {setting or str(value)!r}")
        if not name:
            allowed = ", ".join(entries)
            raise InputError(f"{named.name}: {value} stands without a name; allowed: {allowed}")
        choose(entries, name, f"setting of {named.name}")
        inner = isinstance(types[name], type) and issubclass(types[name], Part)
        given[name] = _made(types[name], value, units) if inner else value
        if isinstance(value, Named) and not inner:
            given[name] = str(value)
    missing = [n for n, entry in entries.items() if entry.default is dataclasses.MISSING]
    for name in missing:
        if name not in given:
            raise InputError(f"{named.name} needs {name}: {named.name}({', '.join(missing)})")
    if units is not None and "units" in entries:
        given = {"units": units} | given
    return found(**given)
