"""Trains and evaluates every combination of a grid, each in a process of its own."""

import fcntl
import functools
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from queue import Queue
from tempfile import TemporaryFile
from typing import IO, Any

from attn_jax import config, run_files
from attn_jax.config import Experiment, Options
from attn_jax.data.datasets import open_corpus
from attn_jax.errors import INTERRUPTED, TRY_AGAIN, InputError
from attn_jax.loading import Place, experiment_of
from attn_jax.own_code import own_modules
from attn_jax.runs import unused
from attn_jax.runs.folder import (
    check_code,
    check_content,
    check_folder,
    in_use,
    inherited,
    tell_inherited,
)
from attn_jax.runs.planning import check_grid, plan, possible
from attn_jax.runs.slots import Slot, slots
from attn_jax.startup import start_training
from attn_jax.training.loop import finished


class InUse(InputError):
    """Another process, such as one of another sweep, is training in the folder of a run."""


def train_in(folder: Path, options: dict, slot: Slot, running: list[subprocess.Popen]) -> None:
    """Trains and evaluates one run in a process of its own; its output goes to `<run>.log`.

    It reads its options as a flag file, in which those that concern only other runs are no error.

    Raises:
      InUse: another process is training the run.
      InputError: the run failed or was interrupted.
    """
    name = folder.with_name(folder.name + ".log")
    with name.open("a+", encoding="utf-8", errors="replace") as log, TemporaryFile("w+") as file:
        lock(log, folder)
        file.write("\n".join(f"--{option}={value}" for option, value in options.items()))
        file.seek(0)
        begin = log.tell()
        command = [sys.executable, "-m", "attn_jax", "train", f"--workdir={folder}"]
        process = subprocess.Popen(
            [*command, "--flagfile=/dev/stdin"],
            stdin=file,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Python is not to look for its own modules in the current folder.
            env=os.environ | slot.environment | {"PYTHONSAFEPATH": "1"},
        )
        running.append(process)
        if slot.cores:
            os.sched_setaffinity(process.pid, slot.cores)
        status = process.wait()
        log.seek(begin)
        lines = log.read().splitlines()
    if status in (TRY_AGAIN, INTERRUPTED):
        raise InputError(f"{folder.name} was interrupted")
    if f"error: {in_use(folder)}" in lines:  # by a program that is no sweep, and locks no log
        raise InUse(f"left {folder.name} alone: {in_use(folder)}")
    if status:
        raise InputError(f"{folder.name} failed: {reason_of(status, lines)} (see {log.name})")


def lock(log: IO[str], folder: Path) -> None:
    """Locks the log of a run until the processes that write it have ended.

    Raises:
      InUse: another sweep has locked it.
    """
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(f"left {folder.name} alone: {in_use(folder)}") from None


def reason_of(status: int, lines: list[str]) -> str:
    """Why a process failed, from its exit status and output."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    # JAX prints a note of its own after an exception.
    errors = [line for line in lines if re.match(r"error: |[\w.]+(Error|Exception)\b", line)]
    return (errors or lines or [f"status {status}"])[-1].removeprefix("error: ")


def tell(line: str) -> None:
    """Prints a line and its newline at once, so that other threads cannot print between them."""
    print(f"{line}\n", end="", flush=True)


def unfinished(root: Path, planned: dict[str, dict], wanted: dict[str, Experiment]) -> list[str]:
    """The runs that are not trained and evaluated yet; checks all of them first.

    Raises:
      InputError: a run cannot start or resume with these flags, or its data have no test split.
    """
    corpus_of = functools.cache(open_corpus)
    waiting: list[str] = []
    kept: dict[str, Any] = {}
    for label, experiment in wanted.items():
        try:
            check_code(root / label, own_modules(experiment))
            corpus = corpus_of(experiment.data)
            check_content(root / label, corpus)
        except InputError as error:
            raise InputError(f"{label}: {error}") from error
        kept |= inherited(experiment, planned[label])
        if "test" not in corpus.splits:
            raise InputError("a sweep compares runs on a test split: give data.test")
        if not (
            run_files.evaluation(root / label, "test").is_file()
            and experiment_of(root / label) == experiment
            and finished(experiment.train, root / label)
        ):
            waiting.append(label)
    tell_inherited(kept)
    return waiting


def end(running: list[subprocess.Popen]) -> None:
    """Hands a signal on to runs, which may have got it from the terminal too; waits for their end.

    They save within their grace.
    """
    for process in running:
        process.terminate()  # has no effect on one that has ended
    for process in running:
        process.wait()


def train_all(root: Path, waiting: dict[str, dict], places: list[Slot]) -> None:
    """Trains and evaluates runs, each as soon as there is a slot for it.

    Runs that other processes are training are left to them, and named at the end.

    Raises:
      InputError: runs have failed; the others have been finished.
    """
    free: Queue = Queue()
    running: list[subprocess.Popen] = []
    for slot in places:
        free.put(slot)

    def work(label: str) -> None:
        slot = free.get()
        try:
            tell(f"started {label}")
            train_in(root / label, waiting[label], slot, running)
            tell(f"finished {label}")
        except InputError as error:
            tell(str(error))
            raise
        finally:
            free.put(slot)

    with ThreadPoolExecutor(len(places)) as pool:
        futures = {label: pool.submit(work, label) for label in waiting}
        try:
            wait(futures.values())
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                end(running)
            except KeyboardInterrupt:
                end(running)  # at once, as they see it
            raise
    errors = {label: future.exception() for label, future in futures.items()}
    left = [label for label, error in errors.items() if isinstance(error, InUse)]
    if left:
        tell(f"left to other processes, which are training them: {'; '.join(left)}")
    failures = [str(error) for label, error in errors.items() if error and label not in left]
    if failures:
        raise InputError("; ".join(failures))


def sweep(
    options: Options,
    root: Place,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    systems: Sequence[Mapping[str, Any]] = (),
    jobs: int = 0,
    may_be_idle: Collection[str] = (),
) -> list[Path]:
    """Trains and evaluates every system with every combination of a grid, each in its own folder.

    The same call again skips finished runs and resumes the others.

    Args:
      options: of all runs, as in `train`.
      root: the folder for the runs.
      grid: options that vary, each with its values: `{"model.score": [Additive(), Dot()]}`.
      systems: the options of each system, to be combined with the grid.
      jobs: runs at a time; 0: one for each GPU, else for each core, at most `slots.MOST_JOBS`.
      may_be_idle: names of options that may have no effect on any run; all others must have one.

    Returns:
      The folders of the runs.

    Raises:
      InputError: the options, the folder or the data cannot be used, or JAX is configured for 64
        bits; or runs have failed, while the others have been finished.
    """
    start_training()
    root, fixed = Path(root), config.given(options)
    given = list(map(config.given, systems))
    varied = {
        name: [config.given({name: value})[name] for value in values]
        for name, values in (grid or {}).items()
    }
    check_grid(varied)
    if not varied and not given:
        raise InputError(
            "nothing varies: give systems or a grid, such as grid.model.score=additive,dot"
        )
    check_folder(root)
    if run_files.flags(root).is_file():
        raise InputError(f"{root} is the folder of a run: take another folder for a sweep")
    planned = plan(given or [{}], varied, fixed)
    wanted, left_out = possible(root, planned, varied)
    waiting = unfinished(root, planned, wanted)
    if not isinstance(options, Experiment):
        runs = [(run, planned[label]) for label, run in wanted.items()]
        unused.check(runs, {*fixed, *varied} - {*may_be_idle})
    places = slots(jobs) if waiting else []
    root.mkdir(parents=True, exist_ok=True)
    replaced = {name: value for name, value in fixed.items() if name in varied}
    if replaced:
        print(f"the grid replaces {config.told(replaced)}")
    why_out = left_out.__getitem__
    for why, labels in itertools.groupby(sorted(left_out, key=why_out), why_out):
        print(f"left out, since {why}: {'; '.join(labels)}")
    print(
        f"{len(wanted)} runs, {len(wanted) - len(waiting)} of them finished; their output goes "
        f"to {root}/<run>.log",
        flush=True,
    )
    if waiting:
        train_all(root, {label: planned[label] for label in waiting}, places)
    return [root / label for label in wanted]
