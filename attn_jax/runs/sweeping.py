"""Trains and evaluates every combination of a grid, each in a process of its own.

A sweep is a plan, whose runs an executor makes; this process by default.
"""

import functools
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.config import Experiment, Options
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError, reason
from attn_jax.files import path_of
from attn_jax.records import run_files
from attn_jax.records.own_code import own_modules
from attn_jax.runs import plans
from attn_jax.runs.checks import check, warn_of_unused
from attn_jax.runs.executor import InUse, Processes, make, slots
from attn_jax.runs.folder import (
    check_code,
    check_content,
    check_folder,
    inherited,
    keep_main,
    settle_planned,
    tell_inherited,
    without_changed,
)
from attn_jax.runs.plans import Plan, grid_of
from attn_jax.runs.standing import Board, is_finished, shown
from attn_jax.startup import start_training
from attn_jax.translation.loading import Place


class Sweep(NamedTuple):
    """The runs of a call.

    Attributes:
      root: the folder of the sweep.
      plan: all runs.
      wanted: those of this call.
      new: those that are to be added to the plan in the folder.
    """

    root: Path
    plan: Plan
    wanted: dict[str, Experiment]
    new: Plan = Plan({})

    @property
    def unfinished(self) -> dict[str, Experiment]:
        """Those of its runs of which something is left to be made."""
        return {
            label: run
            for label, run in self.wanted.items()
            if not is_finished(self.root / label, run, label in self.plan.untested)
        }


def sweep(
    options: Options,
    root: Place,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    systems: Sequence[Mapping[str, Any]] = (),
    jobs: int = 0,
    only: int | None = None,
    part: str = "1/1",
    executor: Executor | None = None,
) -> list[Path]:
    """Trains and evaluates every system with every combination of a grid, each in its own folder.

    The same call again skips finished runs and resumes the others. Several processes, also on
    several machines that share the folder, may make different runs of one sweep (`only`, `part`).

    Args:
      options: of all runs, as in `train`.
      root: the folder for the runs.
      grid: options that vary, each with its values: `{"model.score": [Additive(), Dot()]}`.
      systems: the options of each system, to be combined with the grid.
      jobs: runs at a time of this process; 0: one for each GPU, else for each core, at most
        `executor.MOST_JOBS`.
      only: the number in the plan of the only run to make; None: all.
      part: such as "3/8": every eighth run of the plan, from the third on.
      executor: what makes the runs: `Slurm(...)`, or any executor of the standard library's
        interface, such as that of Dask; None: this process.

    Returns:
      The folders of the runs.

    Raises:
      InputError: the options, the folder or the data cannot be used, or JAX is configured for 64
        bits; or runs have failed, while the others have been finished.
      KeyboardInterrupt: it was interrupted; its runs have saved, and the same call goes on.
    """
    planned = planned_sweep(options, root, grid or {}, systems)
    return work(part_of(planned, only, part), jobs, executor)


def planned_sweep(
    options: Options,
    root: Place,
    grid: Mapping[str, Sequence[Any]],
    systems: Sequence[Mapping[str, Any]],
) -> Sweep:
    """The runs that `sweep` would make; writes nothing."""
    start_training()
    root, fixed = path_of(root), config.given(options)
    given, varied = list(map(config.given, systems)), grid_of(grid)
    if not varied and not given:
        raise InputError(
            "nothing varies: give systems or a grid, such as grid.model.score=additive,dot"
        )
    check_folder(root)
    if run_files.flags(root).is_file():
        raise InputError(f"{root} is the folder of a run: take another folder for a sweep")
    planned = plans.plan(given or [{}], varied, fixed)
    wanted, left_out = plans.possible(root, planned)
    plans.check_used(planned, varied, left_out)
    check_all(root, planned, wanted)
    warn_of_unused(wanted.values(), {*fixed, *varied})
    replaced = {name: value for name, value in fixed.items() if name in varied}
    if replaced:
        print(f"the grid replaces {config.told(replaced)}")
    why_out = left_out.__getitem__
    for why, labels in itertools.groupby(sorted(left_out, key=why_out), why_out):
        print(f"left out, since {why}: {'; '.join(labels)}")
    new = Plan({label: config.texts(planned[label]) for label in wanted})
    return Sweep(root, plans.read(root).with_more(new), wanted, new)


def sweep_in(root: Place, only: int | None = None, part: str = "1/1") -> Sweep:
    """The sweep that was planned in a folder, or some of its runs.

    Args:
      root: the folder.
      only: as in `sweep`.
      part: as in `sweep`.

    Raises:
      InputError: there is none, its plan is damaged, or a run cannot be made or resumed; or there
        is no such run or part.
    """
    start_training()
    root, plan = path_of(root), plan_in(root)
    return Sweep(root, plan, _settled(root, plan.chosen(only, part)))


def plan_in(root: Place) -> Plan:
    """The plan in a folder.

    Raises:
      InputError: there is none, or it is damaged.
    """
    plan = plans.read(path_of(root))
    if not plan.runs:
        raise InputError(f"{root} holds no plan of a sweep: give systems or a grid first")
    return plan


def extended(root: Path, new: Plan) -> Sweep:
    """A sweep of runs that the plan in the folder need not know yet.

    Raises:
      InputError: one of them cannot be made or resumed.
    """
    return Sweep(root, plans.read(root).with_more(new), _settled(root, new.runs), new)


def _settled(root: Path, runs: Mapping[str, Mapping[str, Any]]) -> dict[str, Experiment]:
    """Runs from their options, all of which can be made."""
    wanted: dict[str, Experiment] = {}
    for label, options in runs.items():
        try:
            wanted[label] = settle_planned(root / label, options)
            check(wanted[label])
        except InputError as error:
            raise InputError(f"{label}: {error}") from error
    check_all(root, runs, wanted)
    return wanted


def check_all(
    root: Path, runs: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Experiment]
) -> None:
    """Checks the code and the data of all runs before the first one starts.

    What `__main__` defines is then kept in their folders, from where their processes import it.

    Raises:
      InputError: a run cannot start or resume with these flags, or its data have no test split.
    """
    corpus_of = functools.cache(open_corpus)
    kept: dict[str, Any] = {}
    for label, experiment in wanted.items():
        try:
            check_code(root / label, own_modules(experiment))
            corpus = corpus_of(experiment.data)
            check_content(root / label, corpus)
        except InputError as error:
            raise InputError(f"{label}: {error}") from error
        kept |= inherited(experiment, without_changed(root / label, runs[label]))
        if "test" not in corpus.splits:
            raise InputError("a sweep compares runs on a test split: give data.test")
    for label, experiment in wanted.items():
        keep_main(root / label, experiment)
    tell_inherited(kept)


def part_of(whole: Sweep, only: int | None = None, part: str = "1/1") -> Sweep:
    """Those of the runs that one call is to make, as in `sweep`.

    Raises:
      InputError: there is no such run or part, or the run is of the plan, but not of this sweep.
    """
    chosen = whole.plan.chosen(only, part)
    if only is not None and not chosen.keys() <= whole.wanted.keys():
        raise InputError(f"run {only} is {', '.join(chosen)}, which is not of this grid")
    return whole._replace(wanted={n: run for n, run in whole.wanted.items() if n in chosen})


def work(todo: Sweep, jobs: int, executor: Executor | None = None) -> list[Path]:
    """Makes those runs that are not finished, and returns the folders of all.

    Raises:
      InputError: runs have failed, while the others have been finished.
      KeyboardInterrupt: it was interrupted; its runs have saved.
    """
    (root, _, wanted, new), waiting = todo, todo.unfinished
    places = slots(jobs) if waiting and executor is None else []
    root.mkdir(parents=True, exist_ok=True)
    plans.add(root, new)
    print(
        f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished; their output goes "
        f"to {root}/<run>.log",
        flush=True,
    )
    if waiting and executor is not None:
        _make_all(root, waiting, executor)
    elif waiting:
        with Processes(places) as here:
            _make_all(root, waiting, here)
    return [root / label for label in wanted]


def _make_all(root: Path, labels: Iterable[str], executor: Executor) -> None:
    """Has an executor make runs of the plan, and shows how far they are.

    Raises:
      InputError: some have failed.
      KeyboardInterrupt: it was interrupted.
    """
    board = Board(root)
    # Absolute, as executors may be elsewhere.
    runs = {label: (str(root.absolute()), label, os.getcwd()) for label in labels}
    futures = {executor.submit(make, *run): label for label, run in runs.items()}
    failures, left = [], []
    with shown(board) as tell:
        try:
            for future in as_completed(futures):
                label = futures[future]
                try:
                    future.result()
                    tell(f"finished {label} ({board.summary()})")
                except InUse as error:
                    tell(str(error))
                    left.append(label)
                except Exception as error:  # what an executor raises is of many kinds
                    said = isinstance(error, InputError)
                    failures.append(str(error) if said else f"{label} failed: {reason(error)}")
                    tell(failures[-1])
        except KeyboardInterrupt:
            for future in futures:
                future.cancel()
            if isinstance(executor, Processes):
                try:
                    executor.end()
                except KeyboardInterrupt:
                    executor.end()  # at once, as they see it
                for future in futures:
                    if not future.cancelled() and (error := future.exception()):
                        tell(str(error))
            raise
    if left:
        print(f"left to other processes, which are training them: {'; '.join(left)}", flush=True)
    if failures:
        raise InputError("; ".join(failures))
