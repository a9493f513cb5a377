"""Trains and evaluates every combination of a grid, each in a process of its own.

A sweep is a plan, and workers that claim its runs: the process that plans it is the first.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.config import Experiment, Options
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError
from attn_jax.files import path_of
from attn_jax.records import run_files
from attn_jax.records.own_code import own_modules
from attn_jax.runs import elsewhere, planning, plans, unused
from attn_jax.runs.checks import check
from attn_jax.runs.engines import Engine
from attn_jax.runs.folder import (
    check_code,
    check_content,
    check_folder,
    inherited,
    settle,
    tell_inherited,
)
from attn_jax.runs.planning import grid_of, possible
from attn_jax.runs.plans import Plan
from attn_jax.runs.slots import Slot, slots
from attn_jax.runs.view import Board, shown
from attn_jax.runs.working import Worker, is_finished
from attn_jax.startup import start_training
from attn_jax.translation.loading import Place


class Sweep(NamedTuple):
    """The runs of a worker.

    Attributes:
      root: the folder of the sweep.
      plan: all runs.
      wanted: those of this worker.
      new: those that are to be added to the plan in the folder.
    """

    root: Path
    plan: Plan
    wanted: dict[str, Experiment]
    new: Plan = Plan({})

    @property
    def unfinished(self) -> dict[str, Experiment]:
        """Those of this worker's runs of which something is left to be made."""
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
    executor: Engine | None = None,
) -> list[Path]:
    """Trains and evaluates every system with every combination of a grid, each in its own folder.

    The same call again skips finished runs and resumes the others. Several processes, also on
    several machines that share the folder, may work on one sweep: see `join_sweep`.

    Args:
      options: of all runs, as in `train`.
      root: the folder for the runs.
      grid: options that vary, each with its values: `{"model.score": [Additive(), Dot()]}`.
      systems: the options of each system, to be combined with the grid.
      jobs: runs at a time; 0: one for each GPU, else for each core, at most `slots.MOST_JOBS`; of
        another executor, as many as it has room for.
      only: the number in the plan of the only run to make; None: all.
      part: such as "3/8": every eighth run of the plan, from the third on.
      executor: what starts the runs: `Slurm(...)`, `Ray(...)`, or this process, if it is None.

    Returns:
      The folders of the runs.

    Raises:
      InputError: the options, the folder or the data cannot be used, or JAX is configured for 64
        bits; or runs have failed, while the others have been finished.
      KeyboardInterrupt: it was interrupted; its runs have saved, and the same call goes on.
    """
    planned = planned_sweep(options, root, grid or {}, systems)
    return work(part_of(planned, only, part), jobs, executor)


def join_sweep(
    root: Place,
    *,
    jobs: int = 0,
    only: int | None = None,
    part: str = "1/1",
    executor: Engine | None = None,
) -> list[Path]:
    """Works on a sweep that was planned by another process, which may be working on it too.

    Any number of workers may do so, on any machines that share the folder. A run that another
    worker holds is left to it, and taken over if that worker has died.

    Args:
      root: the folder of the sweep.
      jobs: as in `sweep`.
      only: as in `sweep`.
      part: as in `sweep`.
      executor: as in `sweep`.

    Returns:
      The folders of the runs.

    Raises:
      InputError: there is no plan in the folder; or as in `sweep`.
      KeyboardInterrupt: as in `sweep`.
    """
    return work(sweep_in(root, only, part), jobs, executor)


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
    planned = planning.plan(given or [{}], varied, fixed)
    wanted, left_out = possible(root, planned, varied)
    check_all(root, planned, wanted)
    unused.warn(wanted.values(), {*fixed, *varied})
    replaced = {name: value for name, value in fixed.items() if name in varied}
    if replaced:
        print(f"the grid replaces {config.told(replaced)}")
    why_out = left_out.__getitem__
    for why, labels in itertools.groupby(sorted(left_out, key=why_out), why_out):
        print(f"left out, since {why}: {'; '.join(labels)}")
    new = Plan({label: planned[label] for label in wanted})
    return Sweep(root, plans.read(root).with_more(new), wanted, new)


def sweep_in(root: Place, only: int | None = None, part: str = "1/1") -> Sweep:
    """The sweep that was planned in a folder, or those of its runs that one worker is to make.

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
            wanted[label] = settle(root / label, dict(options))
            check(wanted[label])
        except InputError as error:
            raise InputError(f"{label}: {error}") from error
    check_all(root, runs, wanted)
    return wanted


def check_all(
    root: Path, runs: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Experiment]
) -> None:
    """Checks the code and the data of all runs before the first one starts.

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
        kept |= inherited(experiment, dict(runs[label]))
        if "test" not in corpus.splits:
            raise InputError("a sweep compares runs on a test split: give data.test")
    tell_inherited(kept)


def part_of(whole: Sweep, only: int | None = None, part: str = "1/1") -> Sweep:
    """Those of the runs that one worker is to make, as in `sweep`.

    Raises:
      InputError: there is no such run or part, or the run is of the plan, but not of this sweep.
    """
    chosen = whole.plan.chosen(only, part)
    if only is not None and not chosen.keys() <= whole.wanted.keys():
        raise InputError(f"run {only} is {', '.join(chosen)}, which is not of this grid")
    return whole._replace(wanted={n: run for n, run in whole.wanted.items() if n in chosen})


def work(todo: Sweep, jobs: int, executor: Engine | None = None) -> list[Path]:
    """Makes the runs of a worker that are not finished, and returns the folders of all.

    Raises:
      InputError: runs have failed, while the others have been finished.
      KeyboardInterrupt: it was interrupted; its runs have saved.
    """
    (root, _, wanted, new), waiting = todo, todo.unfinished
    places: list[Slot] = []
    if waiting and executor is not None:
        executor.check()
    elif waiting:
        places = slots(jobs)
    root.mkdir(parents=True, exist_ok=True)
    plan = plans.add(root, new)
    print(
        f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished; their output goes "
        f"to {root}/<run>.log",
        flush=True,
    )
    if waiting and executor is not None:
        elsewhere.make(executor, root, plan, waiting, jobs)
    elif waiting:
        runs, board = {label: plan.runs[label] for label in waiting}, Board(root)
        with shown(board) as tell:
            Worker(root, runs, wanted, tell, board.summary, plan.untested).work(places)
    return [root / label for label in wanted]
