"""Runs of which the best are chosen on validation: they are not tested, and may fail."""

import math
import time
from typing import NamedTuple

from attn_jax.errors import InputError
from attn_jax.records import claims, run_files
from attn_jax.records.claims import Watch
from attn_jax.records.progress import Goodness
from attn_jax.runs.engines import Engine
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import RUNNING, standings
from attn_jax.runs.sweeping import Sweep, work
from attn_jax.runs.validation import best_validation
from attn_jax.runs.view import LOOK_EVERY, tell
from attn_jax.runs.working import is_trained


class Outcome(NamedTuple):
    """What became of a candidate.

    Attributes:
      steps: done.
      why: it failed; empty if it has ended.
      metric: of its best validation; empty if it failed.
      value: of the metric.
      goodness: of that validation.
    """

    steps: int
    why: str = ""
    metric: str = ""
    value: float = 0.0
    goodness: Goodness = (-math.inf, -math.inf)

    @property
    def ended(self) -> bool:
        """Whether it was trained to its end."""
        return bool(self.metric)


def outcomes(candidates: Sweep, jobs: int, executor: Engine | None = None) -> dict[str, Outcome]:
    """Makes all candidates; returns what became of each.

    Raises:
      InputError: one is neither finished nor failed.
    """
    error, found = finish(candidates, jobs, executor), {}
    for label, run in candidates.wanted.items():
        folder = candidates.root / label
        claim = claims.last(run_files.claims(candidates.root, label))
        if is_trained(folder, run):
            criterion, record = best_validation(folder)
            value, goodness = criterion.value(record), criterion.goodness(record)
            found[label] = Outcome(steps_done(folder), "", criterion.metric, value, goodness)
        elif claim is not None and claim.state == claims.FAILED:
            found[label] = Outcome(steps_done(folder), str(claim.said.get("why")))
        else:
            raise error or InputError(f"{label} is not finished: give the same command again")
    return found


def finish(todo: Sweep, jobs: int, executor: Engine | None = None) -> InputError | None:
    """Makes runs until all are finished or have failed; returns why some have, if any have.

    Those that other workers make are waited for, and taken over if such a worker dies.
    """
    watch = Watch()
    while True:
        error = None  # what failed before the wait has been tried again
        try:
            work(todo, jobs, executor)
        except InputError as failed:
            error = failed
        if not _waited_for_others(todo, watch):
            return error


def _waited_for_others(todo: Sweep, watch: Watch) -> bool:
    """Waits for runs that other workers hold, if there are any; a worker may die meanwhile."""
    waited = False
    wanted = Plan({label: todo.plan.runs[label] for label in todo.wanted}, todo.plan.untested)
    while held := [
        run.label for run in standings(todo.root, wanted, watch) if run.state == RUNNING
    ]:
        if not waited:
            tell(f"waiting for another worker, which is at work on {', '.join(held)}")
        waited = True
        time.sleep(LOOK_EVERY)
    return waited
