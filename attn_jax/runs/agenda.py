"""What a comparison is to do: decided once, before its first run, and kept in its folder."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole
from attn_jax.records import run_files
from attn_jax.runs import planning
from attn_jax.runs.budgets import Cost, Extent
from attn_jax.runs.sizes import STEPS

FORMAT = 1
SEED = "seed"


class Member(NamedTuple):
    """A run that a comparison may make."""

    system: int  # its number in the list, from 0
    setting: tuple  # its values of the grid
    seed: int
    label: str  # the name of its folder
    options: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Agenda:
    """What a comparison is to do.

    Attributes:
      asked: what it was asked for, which the same command asks for again.
      options: of all runs.
      systems: the options of each.
      grid: the values that vary from setting to setting.
      seeds: of the chosen setting of each system.
      costs: of each system, as measured.
      places: runs at a time, for which it was made.
      words: what was said of all this.
    """

    asked: dict[str, Any]
    options: dict[str, Any]
    systems: list[dict[str, Any]]
    grid: dict[str, list[Any]]
    seeds: int
    costs: list[Cost]
    places: int
    words: list[str]

    @property
    def extent(self) -> Extent:
        """How much that is."""
        settings = math.prod(map(len, self.grid.values()))
        return Extent(len(self.systems), settings, int(self.options[STEPS]), self.seeds)

    def members(self) -> Iterator[Member]:
        """All runs that may be made: of each setting, all seeds."""
        varied = {**self.grid, SEED: list(range(self.seeds))}
        planned = planning.plan(self.systems, varied, self.options)
        places = itertools.product(range(len(self.systems)), *varied.values())
        for (system, *setting, seed), run in zip(places, planned.items(), strict=True):
            yield Member(system, tuple(setting), seed, *run)


def read(root: Path) -> Agenda | None:
    """The agenda in the folder of a comparison; None if there is none.

    Raises:
      InputError: it is damaged.
    """
    file = run_files.comparison(root)
    if not file.exists():
        return None
    with reading(file, ": take another folder"):
        stored = json.loads(file.read_text("utf-8"))
        if stored.pop("format") != FORMAT:
            raise InputError(f"{file} is of a newer version")
        costs = [Cost(*cost) for cost in stored.pop("costs")]
        return Agenda(costs=costs, **stored)


def record(root: Path, agenda: Agenda) -> None:
    """Writes an agenda into the folder of a comparison."""
    root.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(agenda)}, indent=1)
    write_whole(run_files.comparison(root), text + "\n")


def check_same(root: Path, agenda: Agenda, asked: Mapping[str, Any]) -> None:
    """Raises InputError if the comparison in a folder was asked for something else."""
    for name, value in asked.items():
        if agenda.asked[name] != value:
            raise InputError(
                f"{root} holds a comparison with other {name} ({_brief(agenda.asked[name])}; now "
                f"{_brief(value)}): the command that began it goes on with it, or take another "
                "folder"
            )


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(name_of, value))
    return (config.told(value) or "none") if isinstance(value, dict) else str(value)


def name_of(system: Mapping[str, Any]) -> str:
    """What a system is called: its label, or its options."""
    return str(system.get("label") or config.told(system))
