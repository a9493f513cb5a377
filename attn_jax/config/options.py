"""Options by name, as values or as text: what they mean, and the experiment that they make."""

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

from attn_jax.attention.head_names import SEVERAL, Heads
from attn_jax.attention.plain import as_part
from attn_jax.config.definitions import Data, Experiment, Model, Train
from attn_jax.config.reading import (
    PARTS,
    Tables,
    brief,
    held,
    holds_several,
    imported,
    may_be_none,
    read,
    read_option,
    text_of,
)
from attn_jax.errors import InputError, choose
from attn_jax.recipe.loss import UNITS, Loss, Unit
from attn_jax.recipe.losses import LOSSES
from attn_jax.recipe.optimizer import OPTIMIZERS, SCHEDULES, Optimizer, Schedule
from attn_jax.recipe.orders import ORDERS, Order
from attn_jax.recipe.precision import PRECISIONS, Precision
from attn_jax.settings.fields import absolute, checked, fields
from attn_jax.settings.grammar import Named
from attn_jax.settings.value import Value

TABLES: Tables = {
    **PARTS,
    Optimizer: OPTIMIZERS,
    Schedule: SCHEDULES,
    Heads: SEVERAL,
    Loss: LOSSES,
    Unit: UNITS,
    Precision: PRECISIONS,
    Order: ORDERS,
}


Options = Experiment | Mapping[str, Any]  # by name; those that are left out have their defaults


def known() -> dict[str, dataclasses.Field]:
    """All options by name."""
    return dict(fields(Experiment))


# The type of each option that holds values.
HELD: dict[str, Any] = {name: entry.type for name, entry in known().items() if held(entry.type)}


def given(options: Options) -> dict[str, Any]:
    """The values of options, by name, checked; paths are absolute.

    Where text names the user's own code, which may have been edited, it stays a name until
    `experiment` imports it.

    Args:
      options: values, such as `{"model.score": Additive(units=64)}`, or text for them.

    Raises:
      InputError: they are no options, an option has no such name, a value is of the wrong type or
        out of bounds, a run could not record it, or a path is a URL.
    """
    if isinstance(options, Experiment):
        return values(options)
    if not isinstance(options, Mapping):
        raise InputError(
            "options are a dictionary, such as {'data.name': 'reverse'}, or an Experiment; got "
            f"{options!r}"
        )
    return {name: _read(name, value) for name, value in options.items()}


def _read(name: str, value: Any) -> Any:
    """The value of an option, which may be given as text."""
    entry = choose(known(), name, "option")
    if isinstance(value, str):
        value = value.strip()  # as a flag file has it
    if name not in HELD:
        plain = value.item() if getattr(value, "ndim", None) == 0 else value  # of NumPy or JAX
        return absolute(entry, checked(name, entry, plain))
    if isinstance(value, str):
        return read_option(entry.type, value, TABLES)
    if holds_several(entry.type) and isinstance(value, tuple | list):
        return tuple(_recordable(name, each) for each in value)
    if value is None and may_be_none(entry.type):
        return None
    return _recordable(name, value)


def _recordable(name: str, value: Any) -> Any:
    """A value whose text stands for just that value.

    Raises:
      InputError: it stands for another one, or for none.
    """
    if isinstance(value, Named):
        return value
    if isinstance(value, type):
        raise InputError(f"{name} is the class {value.__name__}: write {value.__name__}()")
    kind = held(HELD[name]) or Value
    if callable(value) and not isinstance(value, Value) and not hasattr(value, "__name__"):
        raise InputError(
            f"{name} has no name by which a run could record it, got {value!r}: make it a function "
            "at the top of a module"
        )
    part, why = as_part(kind, value), ""
    if not isinstance(part, Value):
        raise InputError(f"{name} must be text or a {kind.__name__}, got {value!r}")
    try:
        found = read(kind, str(part), TABLES)
        if found != part:
            why = f"this names {found!r}"
    except InputError as error:
        why = str(error)
    if why:
        raise InputError(
            f"a run could not record {name}={value!r}: its text would be {part.brief()}, but {why}"
        )
    return part


def experiment(options: Mapping[str, Any]) -> Experiment:
    """The experiment with these options, for which the user's own code is imported.

    The others have their defaults.

    Raises:
      InputError: as in `given`; or the user's own code cannot be used.
    """
    groups: dict[str, dict[str, Any]] = {"": {}, "data": {}, "model": {}, "train": {}}
    for name, value in given(options).items():
        group, _, leaf = name.rpartition(".")
        groups[group][leaf] = imported(HELD[name], value, TABLES) if name in HELD else value
    return Experiment(
        **groups[""],
        data=Data(**groups["data"]),
        model=Model(**groups["model"]),
        train=Train(**groups["train"]),
    )


def values(experiment: Experiment) -> dict[str, Any]:
    """The options by name."""
    return {name: operator.attrgetter(name)(experiment) for name, _ in fields(Experiment)}


def texts(options: Options) -> dict[str, str]:
    """The options by name as text, with all settings: `{"model.score": "additive(units=128)"}`."""
    named = values(options) if isinstance(options, Experiment) else options
    return {name: text_of(value) for name, value in named.items()}


def differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """A phrase on each option whose value has changed, such as `seed was 0 and is now 1`."""

    def shown(value: Any) -> str:
        return str(value) if isinstance(value, int | float) else repr(text_of(value))

    return {
        name: f"{name} was {shown(value)} and is now {shown(now[name])}"
        for name, value in before.items()
        if text_of(value) != text_of(now[name])
    }


def told(options: Mapping[str, Any]) -> str:
    """Options in one line, such as `model.score=dot model.heads=2`."""
    return " ".join(f"{name}={brief(value)}" for name, value in options.items())


def train_of(options: Mapping[str, Any]) -> Train:
    """The options of training among those of an experiment."""
    return experiment({n: value for n, value in options.items() if n.startswith("train.")}).train
