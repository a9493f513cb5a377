"""The plan of a sweep: which runs, with which options; one file, which every process reads."""

import contextlib
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole
from attn_jax.records import changes, run_files
from attn_jax.runs.checks import check
from attn_jax.runs.folder import settle_planned

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a sweep in order; the first has number 1.

    Attributes:
      runs: the options of each run as text, by the name of its folder.
      untested: those that are only compared on validation, and leave the test split alone.
    """

    runs: Mapping[str, Mapping[str, Any]]
    untested: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each run."""
        return {label: number for number, label in enumerate(self.runs, start=1)}

    def chosen(self, only: int | None = None, part: str = "1/1") -> dict[str, Mapping[str, Any]]:
        """Some of the runs.

        Args:
          only: the number of the only one; None: all.
          part: such as 3/8: every eighth, from the third on.

        Raises:
          InputError: there is no such run or part, or the run is not of the part.
        """
        if only is not None and only not in self.numbers.values():
            raise InputError(f"there is no run {only}: the plan has {len(self.runs)}")
        found = re.fullmatch(r"(\d+)/(\d+)", part)
        which, of = map(int, found.groups()) if found else (0, 0)
        if not 0 < which <= of:
            raise InputError(f"{part!r} is no part of the runs: write 3/8 for the third of eight")
        if only is not None and only % of != which % of:
            raise InputError(f"run {only} is not of the part {part}")
        return {
            label: self.runs[label]
            for label, number in self.numbers.items()
            if only in (None, number) and number % of == which % of
        }

    def with_more(self, more: "Plan") -> "Plan":
        """The plan with the runs of another one, which wins where both have a run; numbers stay."""
        untested = self.untested - more.runs.keys() | more.untested
        return Plan({**self.runs, **more.runs}, untested)


def read(root: Path) -> Plan:
    """The plan in the folder of a sweep; an empty one if there is none.

    Raises:
      InputError: it is damaged.
    """
    file = run_files.plan(root)
    if not file.exists():
        return Plan({})
    with reading(file, ": remove it, and the command that made it writes it again"):
        stored = json.loads(file.read_text("utf-8"))
        runs = {str(label): dict(options) for label, options in stored["runs"].items()}
        plan = Plan(runs, frozenset(stored.get("untested", ())))
        if stored["format"] != FORMAT or stored["digest"] != _digest(plan):
            raise InputError(f"{file} is damaged, or of a newer version")
        return plan


def add(root: Path, more: Plan) -> Plan:
    """Adds runs to the plan in the folder of a sweep; returns the whole plan.

    Of several processes that add runs at the same time, each keeps those of the others.
    """
    with _locked(root):
        known = read(root)
        plan = known.with_more(more)
        if plan != known:
            stored: dict[str, Any] = {"format": FORMAT, "runs": plan.runs, "digest": _digest(plan)}
            if plan.untested:
                stored["untested"] = sorted(plan.untested)
            write_whole(run_files.plan(root), json.dumps(stored, indent=1) + "\n")
        return plan


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Waits until no other process adds to the plan.

    The lock is on a file of its own: the plan is replaced when it is written, and the folder of the
    sweep is locked by a comparison.
    """
    root.mkdir(parents=True, exist_ok=True)
    lock = os.open(root / ".plan.lock", os.O_RDONLY | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _digest(plan: Plan) -> str:
    text = json.dumps(plan.runs) + " ".join(sorted(plan.untested))
    return hashlib.sha256(text.encode()).hexdigest()


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
        raise InputError(
            f"{name} cannot be {told} for all: the systems differ in it. Give it with each of them"
        )
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
            raise InputError(
                f"two systems are called {folder!r}: give each its own label; and seeds for all, "
                "by grid.seed"
            )
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
