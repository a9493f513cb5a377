"""Which runs a sweep makes: the systems of a file, combined with a grid."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.records import changes
from attn_jax.runs.checks import check
from attn_jax.runs.folder import settle_planned

LONGEST_NAME = 255  # bytes in the name of a file on all common systems


def grid_of(grid: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """The options of a grid, each with its values as in `config.given`.

    Raises:
      InputError: an option has no list of values, none in it, or one twice.
    """
    if not isinstance(grid, Mapping):
        raise InputError(f"a grid is a dictionary of options, each with its values; got {grid!r}")
    varied = {}
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise InputError(f"grid.{name} needs a list of values, got {values!r}")
        varied[name] = [_given(name, value) for value in values]
    for name, values in varied.items():
        if not values:
            raise InputError(f"grid.{name} has no values")
        for value in values:
            if values.count(value) > 1:
                raise InputError(f"grid.{name} has the value {config.brief(value)} twice")
    return varied


def _given(name: str, value: Any) -> Any:
    try:
        return config.given({name: value})[name]
    except InputError as error:
        raise InputError(f"grid.{name}={value}: {error}") from error


def check_name(label: str) -> None:
    """Raises InputError if the name of a run is too long for its folder and its log."""
    if len(f"{label}.log".encode()) > LONGEST_NAME:
        raise InputError(
            f"{label[:60]}… is too long for the name of a folder: give systems a label"
        )


def plan(
    systems: Sequence[Mapping[str, Any]], varied: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> dict[str, dict]:
    """The options of each run, by the name of its folder, which tells what varies.

    A fixed value may override an option on which all systems agree, and the grid a fixed value, as
    in the flag file of a run whose options are to be varied.

    Raises:
      InputError: an option of the grid is a system's too; an option is fixed where systems differ
        in it; a value is not allowed; two systems have the same options; or a name is too long or
        not unique.
    """
    of_systems: set[str] = set().union(*systems)
    fixed = {name: value for name, value in fixed.items() if name not in varied}
    differing = {name for name in of_systems if len({system.get(name) for system in systems}) > 1}
    for name in varied.keys() & of_systems:
        raise InputError(f"{name} is an option of the grid and of a system: give it in one of them")
    for name in differing & fixed.keys():
        told = config.brief(fixed[name])
        raise InputError(f"{name} cannot be {told} for all: the systems differ in it")
    made, known = {}, set()
    for system, combination in itertools.product(systems, itertools.product(*varied.values())):
        combined = dict(zip(varied, combination, strict=True))
        chosen, options = {**system, **combined}, {**system, **fixed, **combined}
        naming = {"label"} if "label" in differing & system.keys() else differing
        told = {k: config.brief(v) for k, v in chosen.items() if k in varied or k in naming}
        folder = ",".join(f"{name}={text}" for name, text in told.items()).replace("/", "-")
        folder = folder or "one"
        try:
            experiment = config.experiment(options)
        except InputError as error:
            raise InputError(f"{folder}: {error}") from error
        if experiment in known:
            same = config.told(chosen)
            raise InputError(f"two systems have the same options: {same}")
        known.add(experiment)
        check_name(folder)
        if folder in made:
            raise InputError(f"two systems are called {folder!r}: give each its own label")
        made[folder] = options
    return made


def possible(
    root: Path, planned: Mapping[str, dict]
) -> tuple[dict[str, Experiment], dict[str, str]]:
    """The experiments of the runs that can be made, and why the others are left out.

    Their options do not fit together, or are those of another run.

    Args:
      root: the folder of the runs.
      planned: the options of each run, by the name of its folder.

    Raises:
      InputError: a run cannot resume.
    """
    experiments, reasons = {}, {}
    for label, options in planned.items():
        try:
            experiment = settle_planned(root / label, options)
        except InputError as error:
            raise InputError(f"{label}: {error}") from error
        since = changes.read(root / label)  # unlike in the plan, their options may be the same now
        same = [
            other
            for other, known in experiments.items()
            if known == experiment and changes.read(root / other) == since
        ]
        try:
            if same:
                raise InputError(f"it is the same as {same[0]}")
            check(experiment)
        except InputError as error:
            reasons[label] = str(error)
        else:
            experiments[label] = experiment
    return experiments, reasons


def check_used(
    planned: Mapping[str, dict], varied: Iterable[str], reasons: Mapping[str, str]
) -> None:
    """Raises InputError if a value of the grid, or a system, is in no possible run.

    Whoever has named it expects it to be.

    Args:
      planned: as in `possible`.
      varied: the options of the grid.
      reasons: why runs are left out.
    """

    def choices(label: str) -> set[tuple]:
        """What a run consists of: values of the grid, and its system, which is all the rest."""
        options = planned[label].items()
        chosen = [(name, value) for name, value in options if name in varied]
        system = tuple((name, value) for name, value in options if name not in varied)
        return {*chosen, system}

    used = set().union(*(choices(label) for label in planned if label not in reasons))
    for label, reason in reasons.items():
        if not choices(label) <= used:
            raise InputError(f"{label}: {reason}")
