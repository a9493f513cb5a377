"""Options by name, as values or as text: what they mean, and the experiment that they make."""

import dataclasses
import operator
from collections.abc import Mapping
from typing import Any

from attn_jax.attention.plain import as_part
from attn_jax.attention.protocol import Part
from attn_jax.config import value_text
from attn_jax.config.definitions import Data, Experiment, Model, Train
from attn_jax.config.held_values import AUTO, One, joined
from attn_jax.errors import InputError, choose
from attn_jax.settings.fields import absolute, checked, fields
from attn_jax.settings.value import Value


def known() -> dict[str, dataclasses.Field]:
    """All options by name."""
    return dict(fields(Experiment))


# How options hold values and, of parts of mechanisms, the kind of each.
HELD: dict[str, One] = {n: f.metadata["held"] for n, f in known().items() if "held" in f.metadata}
PARTS = {name: held.kind for name, held in HELD.items() if issubclass(held.kind, Part)}


Options = Experiment | Mapping[str, Any]  # by name; those that are left out have their defaults


def given(options: Options) -> dict[str, Any]:
    """Options by name, parts of models as text and paths made absolute.

    Args:
      options: values, such as `{"model.score": Additive(units=64)}`, or text for them.

    Raises:
      InputError: they are no options, an option has no such name, or a path is a URL.
    """
    if isinstance(options, Experiment):
        options = values(options)
    if not isinstance(options, Mapping):
        raise InputError(
            "options are a dictionary, such as {'data.name': 'reverse'}, or an Experiment; got "
            f"{options!r}"
        )
    entries = known()
    return {
        name: absolute(choose(entries, name, "option"), _as_text(name, value))
        for name, value in options.items()
    }


def _as_text(name: str, value: Any) -> Any:
    """A value of an option as the command line takes it."""
    if isinstance(value, str):
        return value.strip()  # as a flag file has it
    if name not in HELD:
        return value.item() if getattr(value, "ndim", None) == 0 else value  # of NumPy or JAX
    if value is None:
        return AUTO
    if isinstance(value, tuple | list):
        return joined(_as_text(name, each) for each in value)
    if isinstance(value, type):
        raise InputError(f"{name} is the class {value.__name__}: write {value.__name__}()")
    if isinstance(value, Value):
        return _recorded(name, value, value.brief())
    if not callable(value):
        return value
    if not hasattr(value, "__name__"):
        raise InputError(
            f"{name} has no name by which a run could record it, got {value!r}: make it a function "
            "at the top of a module"
        )
    return _recorded(name, value, f"{value.__module__}:{value.__name__}")


def _recorded(name: str, value: Any, text: str) -> str:
    """The text of a value, which stands for just that value.

    Raises:
      InputError: it stands for another value, or for none.
    """
    kind, tables = HELD[name].kind, HELD[name].tables
    why = ""
    try:
        found = value_text.read(kind, text, tables=tables)
        if found != as_part(kind, value):
            why = f"this names {found!r}"
    except InputError as error:
        why = str(error)
    if why:
        raise InputError(
            f"a run could not record {name}={value!r}: its text would be {text}, but {why}"
        )
    return text


def told(options: Mapping[str, Any]) -> str:
    """Options in one line, such as `model.score=dot model.heads=2`."""
    return " ".join(f"{name}={value}" for name, value in options.items())


def values(experiment: Experiment) -> dict[str, Any]:
    """The options by name, such as `{"model.score": "additive(units=128)", ...}`."""
    found = {name: operator.attrgetter(name)(experiment) for name, _ in fields(Experiment)}
    return found | {name: held.text(found[name]) for name, held in HELD.items() if name in found}


def canonical(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as `values` would give them: checked, with all settings.

    The user's own code is not imported: the text that names it stays as it is.

    Raises:
      InputError: an option has no such name, is of the wrong type or out of bounds.
    """
    found = checked(known(), options)
    for name, held in HELD.items():
        if name in found:
            found[name] = held.canonical(found[name])
    return found


def experiment(options: Mapping[str, Any]) -> Experiment:
    """The experiment with these options; the others have their defaults.

    Raises:
      InputError: an option has no such name, is of the wrong type or out of bounds.
    """
    found = canonical(options)
    for name, held in HELD.items():
        if name in found:
            found[name] = held.read(found[name])
    groups: dict[str, dict[str, Any]] = {"": {}, "data": {}, "model": {}, "train": {}}
    for name, value in found.items():
        group, _, leaf = name.rpartition(".")
        groups[group][leaf] = value
    return Experiment(
        **groups[""],
        data=Data(**groups["data"]),
        model=Model(**groups["model"]),
        train=Train(**groups["train"]),
    )


def train_of(options: Mapping[str, Any]) -> Train:
    """The options of training among those of an experiment."""
    return experiment({n: value for n, value in options.items() if n.startswith("train.")}).train


def brief(name: str, text: Any) -> Any:
    """The value of an option as people write it: without settings of their defaults."""
    return HELD[name].brief(text) if name in HELD else text
