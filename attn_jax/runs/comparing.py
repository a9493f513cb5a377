"""Which attention serves some data: settings are chosen on validation, then compared on the test.

A comparison is a sweep in two stages over one folder. In the first, each system has each setting
with one seed, and the test split is left alone. In the second, the best setting of each system gets
more seeds, and its runs are tested, that of the first stage among them.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config, journal, run_files
from attn_jax.config import Options
from attn_jax.errors import InputError
from attn_jax.evaluation.metrics import METRICS
from attn_jax.loading import Place
from attn_jax.progress import Criterion, Goodness
from attn_jax.reporting.answered import Answer, write_answer
from attn_jax.reporting.report import report
from attn_jax.runs import agenda, budgets, claims, plans
from attn_jax.runs.agenda import SEED, Agenda, Member, name_of
from attn_jax.runs.folder import alone, settle
from attn_jax.runs.plans import Plan
from attn_jax.runs.proposing import proposed
from attn_jax.runs.sizes import SYSTEMS
from attn_jax.runs.slots import slots
from attn_jax.runs.sweeping import Sweep, check_all, work
from attn_jax.runs.view import tell
from attn_jax.runs.working import is_trained
from attn_jax.startup import start_training

SOME = 0.95  # share of the time that is left for runs at last: a report takes the rest


class Validated(NamedTuple):
    """A run of the first stage, and how good it is on validation."""

    run: Member
    goodness: Goodness


def compare(
    options: Options,
    root: Place,
    *,
    hours: float = 2.0,
    systems: Sequence[Mapping[str, Any]] = SYSTEMS,
    seeds: int = 3,
    jobs: int = 0,
) -> Answer:
    """Finds out which attention serves some data, in a time that is given.

    Sizes are chosen for the data, and each system gets the same learning rates and dropouts. What
    does not fit into the time is said and left out before the first run. The same call goes on
    where it was stopped, with what it decided at first.

    Args:
      options: the data, such as `{"data.train": …, "data.valid": …, "data.test": …}`, and others
        that are then the same for all.
      root: the folder for the runs, the report and the answer.
      hours: the time that it may take, from the call on.
      systems: the options of each system, the most important one first.
      seeds: of the best setting of each system.
      jobs: as in `sweep`.

    Returns:
      The answer and the report on which it rests, which are also written into the folder.

    Raises:
      InputError: options, folder or data cannot be used, the time is too short for anything, the
        folder holds another comparison, or runs have failed.
      KeyboardInterrupt: it was interrupted; its runs have saved, and the same call goes on.
    """
    root, left = Path(root), _clock(hours)
    with alone(root):
        is_new = agenda.read(root) is None
        todo = agenda_of(options, root, hours, systems, seeds, jobs, left)
        if is_new:
            agenda.record(root, todo)
        runs = _tested(root, todo)
        if not runs:
            before = left()
            best = _search(root, todo, jobs)
            # Of a comparison that goes on, nothing is known of the time that it took before.
            fits = _seeds_left(todo, before - left(), SOME * left()) if is_new else todo.seeds
            runs = _chosen(todo, best, fits)
        failed = _test(root, runs, jobs)
        chosen = [run.label for run in runs if run.seed == 0]
        planned = [*todo.words, *_missing(todo, runs)]
        answer = write_answer(report(root), run_files.answer(root), planned, chosen)
    if failed:
        raise InputError(f"{failed}; {answer.page} is the answer without them")
    return answer


def agenda_of(
    options: Options,
    root: Place,
    hours: float,
    systems: Sequence[Mapping[str, Any]],
    seeds: int,
    jobs: int,
    left: Callable[[], float] | None = None,
) -> Agenda:
    """What `compare` would do, or what was decided when it began, which is told; writes nothing.

    Raises:
      InputError: as in `compare`.
    """
    start_training()
    root, given = Path(root), config.given(options)
    if not hours > 0 or seeds < 1:
        raise InputError("a comparison needs some hours and at least one seed")
    if "data.train" in given:
        given = {"data.name": "parallel"} | given
    if SEED in given:
        raise InputError(f"a comparison has seeds of its own: leave out seed={given[SEED]}")
    wanted = {
        "options": given,
        "systems": list(map(config.given, systems)),
        "hours": hours,
        "seeds": seeds,
    }
    asked = json.loads(json.dumps(wanted))  # as it is written and read
    known = agenda.read(root)
    if known is not None:
        agenda.check_same(root, known, asked)
        for line in known.words:
            tell(line)
        return known
    for file in (run_files.flags(root), run_files.plan(root)):
        if file.exists():
            raise InputError(f"{root} holds a run or a sweep: take another folder to compare in")
    return proposed(root, asked, slots(jobs), left or _clock(hours), tell)


def _clock(hours: float) -> Callable[[], float]:
    """What says how many seconds are left of some hours from now on."""
    end = time.monotonic() + 3600 * hours
    return lambda: end - time.monotonic()


def _options(runs: Iterable[Member]) -> dict[str, dict[str, Any]]:
    return {run.label: run.options for run in runs}


def _sweep(root: Path, plan: Plan, runs: Iterable[Member]) -> Sweep:
    """Some runs of a plan, checked."""
    options = _options(runs)
    wanted = {label: settle(root / label, dict(given)) for label, given in options.items()}
    check_all(root, options, wanted)
    return Sweep(root, plan, wanted)


def _tested(root: Path, todo: Agenda) -> list[Member]:
    """The runs of the second stage; none if it has not begun."""
    plan = plans.read(root)
    return [
        run for run in todo.members() if run.label in plan.runs and run.label not in plan.untested
    ]


def _search(root: Path, todo: Agenda, jobs: int) -> list[Member]:
    """Makes the runs of the first stage; returns the best of each system on validation.

    A setting that fails is not chosen, and a system of which all fail is left out.

    Raises:
      InputError: runs are not finished, or fewer than two systems are left.
    """
    runs = [run for run in todo.members() if run.seed == 0]
    options = _options(runs)
    sweep, error = _sweep(root, Plan(options, frozenset(options)), runs), None
    try:
        work(sweep, jobs)
    except InputError as failed:
        error = failed
    found: dict[int, list[Validated]] = {}
    for run in runs:
        if is_trained(root / run.label, sweep.wanted[run.label]):
            goodness = _goodness(root / run.label)
            found.setdefault(run.system, []).append(Validated(run, goodness))
            continue
        claim = claims.last(run_files.claims(root, run.label))
        if claim is None or claim.state != claims.FAILED:
            raise error or InputError(
                f"{run.label} is not finished: another process is at work on it"
            )
        tell(f"not chosen, since it failed: {claim.said.get('why')}")
    if len(found) < 2:
        raise error or InputError("a comparison needs two systems that can be trained")
    best = [max(runs, key=lambda run: run.goodness) for runs in found.values()]
    return [validated.run for validated in best]


def _missing(todo: Agenda, runs: Sequence[Member]) -> Iterator[str]:
    """A line on each system that the first stage has left out."""
    kept = {run.system for run in runs}
    for number, system in enumerate(todo.systems):
        if number not in kept:
            yield f"{name_of(system)} is not in the answer: each of its settings failed"


def _test(root: Path, runs: Sequence[Member], jobs: int) -> InputError | None:
    """Makes the runs of the second stage; returns why some have failed, if any have."""
    sweep = _sweep(root, plans.read(root).with_more(_options(runs)), runs)
    try:
        work(sweep, jobs)
    except InputError as error:
        return error
    return None


def _goodness(folder: Path) -> Goodness:
    """That of the best validation of a run."""
    records = journal.read(run_files.journal(folder))
    metric = records[-1]["metric"]
    return max(map(Criterion(metric, METRICS[metric]).goodness, records))


def _seeds_left(todo: Agenda, took: float, left: float) -> int:
    """The seeds for which time is left, after the first stage took some seconds."""
    slower = took / budgets.search_seconds(todo.extent, todo.costs, todo.places)
    seeds = budgets.seeds_left(todo.extent, todo.costs, todo.places, slower, left)
    if seeds < todo.seeds:
        tell(
            f"runs took {slower:.1f} times as long as was measured: {seeds} instead of "
            f"{todo.seeds} seeds, to end in time"
        )
    return seeds


def _chosen(todo: Agenda, best: Sequence[Member], seeds: int) -> list[Member]:
    """The runs of the second stage."""
    settings = {(run.system, run.setting) for run in best}
    for run in best:
        tell(f"the best on validation: {run.label}")
    return [
        run for run in todo.members() if (run.system, run.setting) in settings and run.seed < seeds
    ]
