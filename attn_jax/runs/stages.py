"""The two stages of a comparison, which are a sweep over one folder.

In the first, each system has each setting with one seed, and the test split is left alone. In the
second, the setting of each system that was the best on validation gets more seeds, and its runs are
tested, that of the first stage among them.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.runs import budgets, plans
from attn_jax.runs.agenda import Agenda, Member, name_of
from attn_jax.runs.candidates import finish, outcomes
from attn_jax.runs.plans import Plan
from attn_jax.runs.sweeping import extended
from attn_jax.runs.view import tell

SOME = 0.95  # share of the time that is left for runs at last: a report takes the rest


def _options(runs: Iterable[Member]) -> dict[str, dict[str, Any]]:
    return {run.label: config.texts(run.options) for run in runs}


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
    found = outcomes(extended(root, Plan(options, frozenset(options))), jobs)
    failed = [f"{label} failed: {one.why}" for label, one in found.items() if not one.ended]
    for why in failed:
        tell(f"not chosen: {why}")
    ended: dict[int, list[Member]] = {}
    for run in runs:
        if found[run.label].ended:
            ended.setdefault(run.system, []).append(run)
    if len(ended) < 2:
        told = "".join(f"; {why}" for why in failed)
        raise InputError(f"a comparison needs two systems that can be trained{told}")
    return [max(of, key=lambda run: found[run.label].goodness) for of in ended.values()]


def missing(todo: Agenda, runs: Sequence[Member]) -> Iterator[str]:
    """A line on each system that the first stage has left out."""
    kept = {run.system for run in runs}
    for number, system in enumerate(todo.systems):
        if number not in kept:
            yield f"{name_of(system)} is not in the answer: each of its settings failed"


def confirm(root: Path, runs: Sequence[Member], jobs: int) -> InputError | None:
    """Makes the runs of the second stage; returns why some have failed, if any have."""
    return finish(extended(root, Plan(_options(runs))), jobs)


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
