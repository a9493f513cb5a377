"""Options that have changed in the course of a run, and from which step on: `changes.json`.

The flag file of the run has the current values; undoing changes, last to first, gives earlier ones.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.records import manifest, run_files, strict_json


class Change(NamedTuple):
    """Options that have changed at one step.

    Attributes:
      step: the number of steps done before.
      before, after: the values of these options, by name.
    """

    step: int
    before: dict[str, Any]
    after: dict[str, Any]

    def __str__(self) -> str:
        """Such as `train.learning_rate=0.0001 from step 1500 on`."""
        return f"{config.told(self.after)} from step {self.step} on"

    @property
    def stored(self) -> dict[str, Any]:
        """As JSON holds it."""
        before, after = map(config.texts, (self.before, self.after))
        return {"step": self.step, "before": before, "after": after}


def read(workdir: Path) -> list[Change]:
    """The changes of a run, first to last; none if its options are those that it began with.

    Raises:
      InputError: their record is damaged.
    """
    file = run_files.changes(workdir)
    if not manifest.knows(workdir, file):
        return []
    return [
        Change(one["step"], config.given(one["before"]), config.given(one["after"]))
        for one in json.loads(manifest.content(workdir, file))
    ]


def options_at(workdir: Path, step: int) -> dict[str, Any]:
    """The options with which a step of a run was trained, or is if no later one is; from 1.

    Raises:
      InputError: a file of the run is missing or damaged.
    """
    options = config.recorded(run_files.flags(workdir))
    for change in reversed(read(workdir)):
        if change.step >= step:
            options |= change.before
    return options


def going_on(workdir: Path, done: int, wanted: Mapping[str, Any]) -> list[Change]:
    """The changes of a run that goes on.

    Args:
      workdir: the folder of the run.
      done: the number of steps done; what was to change later has not been trained with.
      wanted: the options of the next step, by name.
    """
    before = options_at(workdir, done)
    names = [name for name in config.CHANGEABLE if before[name] != wanted[name]]
    kept = [change for change in read(workdir) if change.step < done]
    if not names or not done:
        return kept
    return [*kept, Change(done, *({name: of[name] for name in names} for of in (before, wanted)))]


def record(workdir: Path, changes: list[Change]) -> None:
    """Records the changes of a run in its folder."""
    if changes:
        stored = strict_json.dumps([change.stored for change in changes], indent=1)
        manifest.write(workdir, run_files.changes(workdir), stored + "\n")
    else:
        manifest.forget(workdir, run_files.changes(workdir))
