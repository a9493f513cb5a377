"""The plan of a sweep: one file, which tells every worker the runs and their options."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole
from attn_jax.records import run_files

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """The runs of a sweep in order; the first has number 1.

    Attributes:
      runs: the options of each run, by the name of its folder.
      untested: those that are only compared on validation, and leave the test split alone.
    """

    runs: Mapping[str, Mapping[str, Any]]
    untested: frozenset[str] = frozenset()

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each run."""
        return {label: number for number, label in enumerate(self.runs, start=1)}

    def chosen(self, only: int = 0, part: str = "1/1") -> dict[str, Mapping[str, Any]]:
        """The runs of a worker.

        Args:
          only: the number of the only one; 0: all.
          part: such as 3/8: every eighth, from the third on.

        Raises:
          InputError: there is no such run or part.
        """
        if only not in range(len(self.runs) + 1):
            raise InputError(f"there is no run {only}: the plan has {len(self.runs)}")
        found = re.fullmatch(r"(\d+)/(\d+)", part)
        which, of = map(int, found.groups()) if found else (0, 0)
        if not 0 < which <= of:
            raise InputError(f"{part!r} is no part of the runs: write 3/8 for the third of eight")
        return {
            label: self.runs[label]
            for label, number in self.numbers.items()
            if only in (0, number) and number % of == which % of
        }

    def with_more(self, runs: Mapping[str, Mapping[str, Any]]) -> "Plan":
        """The plan with more runs, which are tested, or other options of some; numbers stay."""
        return Plan({**self.runs, **runs}, self.untested - runs.keys())


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


def record(root: Path, plan: Plan) -> None:
    """Writes a plan into the folder of a sweep, unless it is there."""
    if read(root) != plan:
        stored: dict[str, Any] = {"format": FORMAT, "runs": plan.runs, "digest": _digest(plan)}
        if plan.untested:
            stored["untested"] = sorted(plan.untested)
        write_whole(run_files.plan(root), json.dumps(stored, indent=1) + "\n")


def _digest(plan: Plan) -> str:
    text = json.dumps(plan.runs) + " ".join(sorted(plan.untested))
    return hashlib.sha256(text.encode()).hexdigest()
