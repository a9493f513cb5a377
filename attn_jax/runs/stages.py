"""The two stages of a comparison, which are a sweep over one folder.

In the first, each system has each setting with one seed, and the test split is left alone. In the
second, the setting of each system that was the best on validation gets more seeds, and its runs are
tested, that of the first stage among them.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax.errors import InputError
from attn_jax.records import claims, run_files
from attn_jax.records.claims import Watch
from attn_jax.records.progress import Goodness
from attn_jax.runs import budgets, plans
from attn_jax.runs.agenda import Agenda, Member, name_of
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import RUNNING, standings
from attn_jax.runs.sweeping import Sweep, extended, work
from attn_jax.runs.validation import best_validation
from attn_jax.runs.view import LOOK_EVERY, tell
from attn_jax.runs.working import is_trained

SOME = 0.95  # share of the time that is left for runs at last: a report takes the rest


class Validated(NamedTuple):
    """A run of the first stage, and how good it is on validation."""

    run: Member
    goodness: Goodness


def _options(runs: Iterable[Member]) -> dict[str, dict[str, Any]]:
    return {run.label: run.options for run in runs}


def tested(root: Path, todo: Agenda) -> list[Member]:
    """The runs of the second stage; none if it has not begun."""
    plan = plans.read(root)
    return [
        run for run in todo.members() if run.label in plan.runs and run.label not in plan.untested
    ]


def search(root: Path, todo: Agenda, jobs: int) -> list[Member]:
    """Makes the runs of the first stage; returns the best of each system on validation.

    A setting that fails is not chosen, and a system of which all fail is left out.

    Raises:
      InputError: runs are not finished, or fewer than two systems are left.
    """
    runs = [run for run in todo.members() if run.seed == 0]
    options = _options(runs)
    sweep = extended(root, Plan(options, frozenset(options)))
    error = _finish(sweep, jobs)
    found: dict[int, list[Validated]] = {}
    for run in runs:
        if is_trained(root / run.label, sweep.wanted[run.label]):
            criterion, record = best_validation(root / run.label)
            found.setdefault(run.system, []).append(Validated(run, criterion.goodness(record)))
            continue
        claim = claims.last(run_files.claims(root, run.label))
        if claim is None or claim.state != claims.FAILED:
            raise error or InputError(f"{run.label} is not finished")
        tell(f"not chosen, since it failed: {claim.said.get('why')}")
    if len(found) < 2:
        raise error or InputError("a comparison needs two systems that can be trained")
    best = [max(runs, key=lambda run: run.goodness) for runs in found.values()]
    return [validated.run for validated in best]


def missing(todo: Agenda, runs: Sequence[Member]) -> Iterator[str]:
    """A line on each system that the first stage has left out."""
    kept = {run.system for run in runs}
    for number, system in enumerate(todo.systems):
        if number not in kept:
            yield f"{name_of(system)} is not in the answer: each of its settings failed"


def confirm(root: Path, runs: Sequence[Member], jobs: int) -> InputError | None:
    """Makes the runs of the second stage; returns why some have failed, if any have."""
    return _finish(extended(root, Plan(_options(runs))), jobs)


def _finish(sweep: Sweep, jobs: int) -> InputError | None:
    """Makes runs until all are finished or have failed; returns why some have, if any have."""
    watch = Watch()
    while True:
        error = None  # what failed before the wait has been tried again
        try:
            work(sweep, jobs)
        except InputError as failed:
            error = failed
        if not _waited_for_others(sweep, watch):
            return error


def _waited_for_others(sweep: Sweep, watch: Watch) -> bool:
    """Waits for runs that other workers hold, if there are any; a worker may die meanwhile."""
    waited = False
    while held := [
        run.label
        for run in standings(sweep.root, sweep.plan, watch)
        if run.state == RUNNING and run.label in sweep.wanted
    ]:
        if not waited:
            tell(f"waiting for another worker, which is at work on {', '.join(held)}")
        waited = True
        time.sleep(LOOK_EVERY)
    return waited


def seeds_left(todo: Agenda, took: float, left: float) -> int:
    """The seeds for which time is left, which it tells if they are fewer than planned.

    Args:
      todo: what was planned.
      took: seconds of the first stage.
      left: seconds.
    """
    slower = took / budgets.search_seconds(todo.extent, todo.costs, todo.places)
    seeds = budgets.seeds_left(todo.extent, todo.costs, todo.places, slower, SOME * left)
    if seeds < todo.seeds:
        tell(
            f"runs took {slower:.1f} times as long as was measured: {seeds} instead of "
            f"{todo.seeds} seeds, to end in time"
        )
    return seeds


def chosen(todo: Agenda, best: Sequence[Member], seeds: int) -> list[Member]:
    """The runs of the second stage."""
    settings = {(run.system, run.setting) for run in best}
    for run in best:
        tell(f"the best on validation: {run.label}")
    return [
        run for run in todo.members() if (run.system, run.setting) in settings and run.seed < seeds
    ]
