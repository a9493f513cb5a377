"""A worker of a sweep: claims runs, and trains each in a process of its own."""

import contextlib
import dataclasses
import fcntl
import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from attn_jax.config import Experiment
from attn_jax.errors import INTERRUPTED, TRY_AGAIN, InputError
from attn_jax.records import claims, run_files
from attn_jax.records.claims import Held, Watch, beating
from attn_jax.runs.children import Children
from attn_jax.runs.folder import in_use
from attn_jax.runs.slots import Slot
from attn_jax.training.loop import finished
from attn_jax.translation.loading import experiment_of

LOOK_AGAIN = 1.0  # seconds between looks at runs that others hold


class InUse(InputError):
    """Another process is training the run."""


class Interrupted(InputError):
    """A signal has ended the run, which can go on."""


def is_done(folder: Path, experiment: Experiment) -> bool:
    """Whether a run is trained and evaluated."""
    return run_files.evaluation(folder, "test").is_file() and is_trained(folder, experiment)


def is_trained(folder: Path, experiment: Experiment) -> bool:
    """Whether a run is trained, evaluated or not."""
    return (
        run_files.flags(folder).is_file()
        and experiment_of(folder) == experiment
        and finished(experiment.train, folder)
    )


def is_finished(folder: Path, experiment: Experiment, is_untested: bool) -> bool:
    """Whether nothing is left to be made of a run, which may leave the test split alone."""
    return (is_trained if is_untested else is_done)(folder, experiment)


def train_in(
    folder: Path,
    options: Mapping[str, Any],
    slot: Slot,
    log: IO[str],
    children: Children,
    flags: Sequence[str] = (),
) -> None:
    """Trains and evaluates one run in a process of its own.

    It reads its options as a flag file, in which those that concern only other runs are no error.

    Args:
      folder: of the run.
      options: of the run.
      slot: where it runs.
      log: the file for its output.
      children: start the process.
      flags: others of the program.

    Raises:
      InUse: another process is training the run.
      Interrupted: a signal has ended it.
      InputError: the run failed.
    """
    with TemporaryFile("w+") as file:
        file.write("\n".join(f"--{option}={value}" for option, value in options.items()))
        file.seek(0)
        begin = log.seek(0, os.SEEK_END)
        command = [sys.executable, "-m", "attn_jax", "train", f"--workdir={folder}", *flags]
        begin_run = functools.partial(
            subprocess.Popen,
            [*command, "--flagfile=/dev/stdin"],
            stdin=file,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Python is not to look for its own modules in the current folder.
            env=os.environ | slot.environment | {"PYTHONSAFEPATH": "1"},
        )
        process = children.start(begin_run)
        if process is None:
            raise Interrupted(f"{folder.name} was interrupted")
        if slot.cores:
            os.sched_setaffinity(process.pid, slot.cores)
        status = process.wait()
        log.seek(begin)
        lines = log.read().splitlines()
    if status in (TRY_AGAIN, INTERRUPTED, -signal.SIGTERM, -signal.SIGINT):
        raise Interrupted(f"{folder.name} was interrupted")
    if f"error: {in_use(folder)}" in lines:
        raise InUse(f"left {folder.name} alone: {in_use(folder)}")
    if status:
        raise InputError(f"{folder.name} failed: {reason_of(status, lines)} (see {log.name})")


def reason_of(status: int, lines: list[str]) -> str:
    """Why a process failed, from its exit status and output."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    # JAX prints a note of its own after an exception.
    errors = [line for line in lines if re.match(r"error: |[\w.]+(Error|Exception)\b", line)]
    return (errors or lines or [f"status {status}"])[-1].removeprefix("error: ")


@dataclasses.dataclass
class Taken:
    """A run that this worker has claimed, and its log, locked until all that write it have ended.

    The lock tells other workers of this machine at once whether the holder of a claim lives.
    """

    label: str
    log: IO[str]
    held: Held


class Worker:
    """Claims and trains runs until none is left that no one else trains.

    A run whose holder has died is taken over. One that fails after this worker has begun, here or
    elsewhere, is not tried again.

    Args:
      root: the folder of the sweep.
      runs: the options of the runs to make, by the names of their folders.
      wanted: the same runs as experiments.
      tell: shows a line.
      standing: says how far the sweep is.
      untested: those of the runs that leave the test split alone.
    """

    def __init__(
        self,
        root: Path,
        runs: Mapping[str, Mapping[str, Any]],
        wanted: Mapping[str, Experiment],
        tell: Callable[[str], None],
        standing: Callable[[], str],
        untested: Collection[str] = (),
    ):
        self._root, self._wanted, self._tell, self._standing = root, wanted, tell, standing
        self._options, self._todo, self._untested = runs, dict(runs), untested
        self._children = Children()
        self._failures: list[str] = []
        self._left: list[str] = []
        self._lock, self._watch = threading.Lock(), Watch()
        begun = {label: claims.last(run_files.claims(root, label)) for label in runs}
        self._before = {label: claim.number for label, claim in begun.items() if claim}

    def work(self, places: Sequence[Slot]) -> None:
        """Trains and evaluates runs, each as soon as there is a slot for it.

        Raises:
          InputError: runs have failed; the others have been finished.
          KeyboardInterrupt: it was interrupted; the runs have ended, and saved.
        """
        with ThreadPoolExecutor(len(places)) as pool:
            try:
                futures = [pool.submit(self._work_in, slot) for slot in places]
                wait(futures)
            except KeyboardInterrupt:
                try:
                    self._children.end()
                except KeyboardInterrupt:
                    self._children.end()  # at once, as they see it
                raise
        for future in futures:
            future.result()
        for label in self._todo:
            self._tell(f"left {label} alone: {in_use(self._root / label)}")
        left = "; ".join([*self._left, *self._todo])
        if left:
            self._tell(f"left to other processes, which are training them: {left}")
        if self._failures:
            raise InputError("; ".join(self._failures))

    def _work_in(self, slot: Slot) -> None:
        while taken := self._next():
            with taken.log:
                self._make(taken, slot)

    def _make(self, taken: Taken, slot: Slot) -> None:
        label, held = taken.label, taken.held
        self._tell(f"started {label}")
        state, why = claims.FINISHED, ""
        try:
            with beating(held, lambda: None):
                options, flags = self._options[label], [f"--claim={held.file}"]
                if label in self._untested:
                    flags.append("--evaluate_on=")
                train_in(self._root / label, options, slot, taken.log, self._children, flags)
        except InUse as error:
            state, why = claims.PAUSED, str(error)
            self._left.append(label)
        except InputError as error:
            paused = isinstance(error, Interrupted)
            state, why = claims.PAUSED if paused else claims.FAILED, str(error)
            self._failures.append(why)
        held.tell(state=state, why=why)  # first, since there may be no one left to tell
        self._tell(why or f"finished {label} ({self._standing()})")

    def _next(self) -> Taken | None:
        """Claims a run; None if all are done, or others are training them."""
        while not self._children.ended:
            with self._lock:
                undecided = False
                for label in list(self._todo):
                    claim = self._claim(label)
                    if isinstance(claim, Taken):
                        del self._todo[label]
                        return claim
                    undecided |= claim
            if not undecided:
                return None
            time.sleep(LOOK_AGAIN)
        return None

    def _claim(self, label: str) -> Taken | bool:
        """Claims a run, or says whether it may soon be free."""
        folder = run_files.claims(self._root, label)
        with contextlib.ExitStack() as stack:
            name = run_files.log(self._root, label)
            log = stack.enter_context(name.open("a+", encoding="utf-8", errors="replace"))
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            claim = claims.last(folder)
            if claim is not None and claim.state == claims.RUNNING and not claim.is_of_this_machine:
                self._watch.look(folder, claim)
                if not self._watch.is_dead(folder):
                    return not self._watch.is_alive(folder)
            if claim is not None and claim.state == claims.FAILED and self._is_new(label, claim):
                del self._todo[label]
                self._failures.append(str(claim.said.get("why")))
                return False
            if is_finished(self._root / label, self._wanted[label], label in self._untested):
                del self._todo[label]
                self._tell(f"finished {label}, elsewhere")
                return False
            held = claims.take(folder, claim)
            if held is None:
                return True
            stack.pop_all()
            return Taken(label, log, held)

    def _is_new(self, label: str, claim: claims.Claim) -> bool:
        """Whether a claim has been made since this worker has begun."""
        return claim.number > self._before.get(label, 0)
