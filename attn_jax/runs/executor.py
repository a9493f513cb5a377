"""What makes the runs of a sweep: anything with `submit(function, *arguments) -> future`.

The function is `make`, which trains one run of a plan in a process of its own. `Processes` calls it
in threads of this process, each with cores or GPUs of its own; executors of clusters call it there.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from attn_jax import config
from attn_jax.errors import INTERRUPTED, TRY_AGAIN, InputError
from attn_jax.records import run_files, states
from attn_jax.records.own_code import copy_of
from attn_jax.runs import plans
from attn_jax.runs.folder import in_use, is_locked, without_changed
from attn_jax.settings.main_source import KEPT, MAIN

STOPPED = (TRY_AGAIN, INTERRUPTED, -signal.SIGTERM, -signal.SIGINT)

# Notices of clusters, which are for who has started a run.
NOTICES = {signal.SIGUSR1, signal.SIGUSR2}
HERE = threading.local()  # the slot and the processes of a thread of `Processes`
CHILDREN: set[subprocess.Popen] = set()
MOST_JOBS = 8  # runs at a time on a CPU without --jobs: each takes half a GiB of memory
MEMORY_SHARES = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")  # of a GPU's memory


class Slot(NamedTuple):
    """Room for one run at a time."""

    cores: Sequence[int]  # CPU cores to bind the run to; empty: not bound
    environment: dict[str, str]  # additional variables


def slots(jobs: int) -> list[Slot]:
    """One slot for each of `jobs` concurrent runs.

    0 jobs means one for each GPU, else one for each CPU core, at most `MOST_JOBS`. Small models
    train faster side by side on one core each than one after another on all cores. Fewer runs than
    GPUs divide all GPUs among themselves.

    Raises:
      InputError: JAX does not start, several runs are wanted on a TPU, or less than none.
    """
    if jobs < 0:
        raise InputError(f"jobs must be at least 0, got {jobs}")
    platform, count = devices()
    if platform == "gpu":
        jobs = jobs or count
        together = -(-jobs // count)  # runs on one GPU, at most
        return [Slot([], _on_gpus(share, together)) for share in shares(range(count), jobs)]
    if platform != "cpu":
        if jobs > 1:
            raise InputError(f"jobs={jobs}: a {platform.upper()} has one run at a time")
        # Explicit, so that JAX does not fall back to the CPU if another process has the device.
        return [Slot([], {"JAX_PLATFORMS": f"{platform},cpu"})]
    if not hasattr(os, "sched_getaffinity"):
        return [Slot([], {})] * (jobs or min(os.cpu_count() or 1, MOST_JOBS))
    cores = sorted(os.sched_getaffinity(0))
    return [Slot(share, {}) for share in shares(cores, jobs or min(len(cores), MOST_JOBS))]


def shares(things: Sequence[int], jobs: int) -> list[Sequence[int]]:
    """Divides things among jobs; if there are fewer things than jobs, jobs share them."""
    return [things[nth::jobs] or [things[nth % len(things)]] for nth in range(jobs)]


def devices() -> tuple[str, int]:
    """The platform that runs will use, and the number of its local devices.

    A subprocess looks them up: as JAX starts, it takes most of a GPU's memory, or a whole TPU.

    Raises:
      InputError: JAX does not start.
    """
    ask = "import jax; print(jax.default_backend(), jax.local_device_count())"
    # -P: Python is not to look for its own modules in the current folder.
    asked = subprocess.run([sys.executable, "-P", "-c", ask], capture_output=True, text=True)
    if asked.returncode:
        reason = asked.stderr.strip().splitlines()[-1:]
        raise InputError(f"JAX does not start: {''.join(reason)}")
    sys.stderr.write(asked.stderr)  # such as why JAX does not use a device that is present
    platform, count = asked.stdout.split()[-2:]
    return platform, int(count)


def _on_gpus(indices: Sequence[int], together: int) -> dict[str, str]:
    environment = {
        variable: _names(indices, os.environ.get(variable))
        for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    }
    if together > 1 and not any(name in os.environ for name in MEMORY_SHARES):
        # By default, a process takes three quarters of a GPU's memory when it starts.
        environment[MEMORY_SHARES[0]] = f"{0.9 / together:.2f}"
    return environment


def _names(indices: Sequence[int], visible: str | None) -> str:
    """The names of GPUs that are given as indices into those visible to this process."""
    names = visible.split(",") if visible else []
    if len(names) <= max(indices):  # the variable is for another vendor's GPUs
        return ",".join(map(str, indices))
    return ",".join(names[nth].strip() for nth in indices)


class InUse(InputError):
    """Another process is training the run."""


class Interrupted(InputError):
    """A signal has ended the run, which can go on."""


class Processes(ThreadPoolExecutor):
    """Threads, each with a slot, whose processes end together.

    Args:
      slots: where the processes run.
    """

    def __init__(self, slots: Sequence[Slot]):
        self._free: SimpleQueue[Slot] = SimpleQueue()
        self._started: set[subprocess.Popen] = set()
        self._lock, self._ended = threading.Lock(), False
        for slot in slots:
            self._free.put(slot)
        super().__init__(len(slots), initializer=self._take)

    def _take(self) -> None:
        HERE.slot, HERE.processes = self._free.get(), self

    @contextlib.contextmanager
    def started(self, command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen]:
        """A process that ends with the others."""
        with self._lock:
            if self._ended:
                raise Interrupted("it was not started: the sweep was interrupted")
            process = subprocess.Popen(command, **settings)
            self._started.add(process)
        try:
            yield process
        finally:
            with self._lock:
                self._started.discard(process)

    def end(self) -> None:
        """Tells all processes to save and end, starts no other, and waits for them."""
        with self._lock:
            self._ended = True
            for process in self._started:
                process.terminate()  # which may have got the signal from the terminal too
        self.shutdown(cancel_futures=True)


def end_children() -> None:
    """Has the runs that this process trains for others save and end; waits for them."""
    for process in [*CHILDREN]:
        process.terminate()
    while any(process.poll() is None for process in CHILDREN):
        time.sleep(0.05)


def make(root: str, label: str, folder: str) -> None:
    """Trains and evaluates one run of the plan of a sweep.

    Args:
      root: the folder of the sweep.
      label: the name of the folder of the run.
      folder: where the user's own modules are.

    Raises:
      InUse: another process is training the run.
      Interrupted: a signal has ended it.
      InputError: the run failed; its state says why, too.
    """
    plan, workdir = plans.read(Path(root)), Path(root, label)
    if is_locked(workdir):
        raise InUse(f"left {label} alone: {in_use(workdir)}")
    flags = ["--evaluate_on="] if label in plan.untested else []
    log = run_files.log(Path(root), label)
    states.starting(workdir)
    with log.open("a", encoding="utf-8") as output:
        options = without_changed(workdir, plan.runs[label])
        status = run_child(workdir, options, flags, output, folder)
    if status in STOPPED:
        states.stopped(workdir)
        raise Interrupted(f"{label} was interrupted")
    if not status:
        return
    if is_locked(workdir):  # another process was faster
        raise InUse(f"left {label} alone: {in_use(workdir)}")
    why = states.read(workdir).get("why")
    if not why:
        why = how_ended(status)
        states.tell(workdir, states.FAILED, why=why)
    raise InputError(f"{label} failed: {why} (see {log})")


def how_ended(status: int) -> str:
    """How a process has ended, by its exit status."""
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def run_child(
    workdir: Path,
    options: Mapping[str, Any],
    flags: Sequence[str],
    output: IO | int,
    folder: str = "",
) -> int:
    """Runs the program `train`, which reads its options as a flag file; returns its exit status.

    It saves and ends if this process dies.
    """
    slot = getattr(HERE, "slot", Slot([], {}))
    start = HERE.processes.started if hasattr(HERE, "processes") else subprocess.Popen
    with TemporaryFile("w+") as file, contextlib.ExitStack() as stack:
        file.write("\n".join(f"--{name}={text}" for name, text in config.texts(options).items()))
        file.seek(0)
        held_by_child, held = os.pipe()  # of which the child sees when this end is closed
        stack.callback(os.close, held)
        stack.callback(os.close, held_by_child)
        command = [sys.executable, "-m", "attn_jax", "train", f"--workdir={workdir}", *flags]
        with _notices_held():
            process = stack.enter_context(
                start(
                    [*command, f"--in_sweep={held_by_child}", "--flagfile=/dev/stdin"],
                    pass_fds=[held_by_child],
                    stdin=file,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=folder if os.path.isdir(folder) else None,
                    # Python is not to look for its own modules in the current folder.
                    env=os.environ | slot.environment | _main_of(workdir) | {"PYTHONSAFEPATH": "1"},
                )
            )
        CHILDREN.add(process)
        if slot.cores:
            os.sched_setaffinity(process.pid, slot.cores)
        try:
            # Not `wait`, which holds a lock that a handler of a signal would wait for.
            while process.poll() is None:
                time.sleep(0.05)
        except BaseException:  # whoever called has been told to end
            process.terminate()
            process.wait()
            raise
        finally:
            CHILDREN.discard(process)
        return process.returncode


def _main_of(workdir: Path) -> dict[str, str]:
    """The variable by which a run finds what its folder keeps of the `__main__` that planned it."""
    kept = copy_of(workdir, MAIN)
    return {KEPT: str(kept.absolute())} if kept.is_file() else {}


@contextlib.contextmanager
def _notices_held() -> Iterator[None]:
    """Holds back the notices of clusters, also from processes that are started meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NOTICES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
