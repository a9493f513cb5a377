"""How long the runs of a sweep will take, from a step of each system that is measured first."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from attn_jax.config import Experiment
from attn_jax.runs.executor import Processes, run_child
from attn_jax.runs.folder import steps_done
from attn_jax.runs.measuring import FOUND, STEPS, Pace
from attn_jax.runs.slots import Slot
from attn_jax.runs.sweeping import Sweep


class Estimate(NamedTuple):
    """What a run will take."""

    steps: int  # left
    pace: Pace | None  # None if nothing is left, or it could not be measured
    start: float  # seconds until the first step, without compilation
    why: str  # it could not be measured

    @property
    def seconds(self) -> float:
        """Seconds that the run needs, without validations; 0 if that is not known."""
        return self.steps * (self.pace.step if self.pace else 0.0)


def estimates(todo: Sweep, places: Sequence[Slot]) -> dict[str, Estimate]:
    """What each run of a sweep will take; nothing is written into its folder.

    A step is measured once for all seeds of a system, where the runs would run, as many at a time.
    """
    steps = {
        label: run.train.steps - steps_done(todo.root / label)
        for label, run in todo.unfinished.items()
    }
    waiting = [label for label in steps if steps[label]]  # others are only to be evaluated
    systems: dict[Experiment, str] = {}
    for label in waiting:
        systems.setdefault(_system(todo.wanted[label]), label)
    # Of fewer systems than places, some seeds too, since runs at the same time slow each other.
    seeds = [label for label in waiting if label not in systems.values()]
    beside = seeds[: max(0, len(places) - len(systems))]

    chosen = [*systems.values(), *beside]
    with Processes(places) as executor:
        made = [executor.submit(_measured, todo.root / n, todo.plan.runs[n]) for n in chosen]
        try:
            found = [future.result() for future in made]
        except KeyboardInterrupt:
            executor.end()
            raise
    of_system = dict(zip(systems, found, strict=False))
    return {
        label: Estimate(steps.get(label, 0), *of_system.get(_system(run), (None, 0.0, "")))
        for label, run in todo.wanted.items()
    }


def _system(run: Experiment) -> Experiment:
    """What takes the same time: all but the seed and the number of steps."""
    train = dataclasses.replace(run.train, steps=1)
    return dataclasses.replace(run, seed=0, label="", train=train)


def _measured(folder: Path, options: Mapping[str, Any]) -> tuple[Pace | None, float, str]:
    """The pace of a run, the seconds until its first step, or why they could not be measured."""
    began = time.monotonic()
    with TemporaryFile("w+") as output:
        status = run_child(folder, options, ["--dry_run"], output)
        output.seek(0)
        said = output.read()
    found = FOUND.search(said)
    if status or found is None:
        lines = said.strip().splitlines() or [f"status {status}"]
        return None, 0.0, lines[-1].removeprefix("error: ")
    pace = Pace(*map(float, found.groups()))
    took = time.monotonic() - began
    return pace, max(0.0, took - pace.compilation - STEPS * pace.step), ""
