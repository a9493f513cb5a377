"""The plan of a sweep: one file, which tells every process the runs and their options."""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
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
