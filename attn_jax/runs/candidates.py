"""Runs of which the best are chosen on validation: they are not tested, and may fail."""

import math
from concurrent.futures import Executor
from typing import NamedTuple

from attn_jax.errors import InputError
from attn_jax.records import states
from attn_jax.records.progress import Goodness
from attn_jax.runs.folder import steps_done
from attn_jax.runs.standing import is_trained
from attn_jax.runs.sweeping import Sweep, work
from attn_jax.runs.validation import best_validation


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


def outcomes(candidates: Sweep, jobs: int, executor: Executor | None = None) -> dict[str, Outcome]:
    """Makes all candidates; returns what became of each.

    Raises:
      InputError: one is neither finished nor failed.
    """
    error, found = finish(candidates, jobs, executor), {}
    for label, run in candidates.wanted.items():
        folder = candidates.root / label
        said = states.read(folder)
        if is_trained(folder, run):
            criterion, record = best_validation(folder)
            value, goodness = criterion.value(record), criterion.goodness(record)
            found[label] = Outcome(steps_done(folder), "", criterion.metric, value, goodness)
        elif said.get("state") == states.FAILED:
            found[label] = Outcome(steps_done(folder), str(said.get("why")))
        else:
            raise error or InputError(f"{label} is not finished: give the same command again")
    return found


def finish(todo: Sweep, jobs: int, executor: Executor | None = None) -> InputError | None:
    """Makes runs until all are finished or have failed; returns why some have, if any have."""
    try:
        work(todo, jobs, executor)
    except InputError as failed:
        return failed
    return None
