"""Runs of a sweep as jobs of Slurm, by submitit: an executor, each of whose calls is a job.

Before Slurm ends a job, at its time limit or for another one, it tells it; the run then saves, and
the job goes back into the queue.
"""

import dataclasses
import importlib
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from pathlib import Path
from types import ModuleType
from typing import Any

from attn_jax.errors import InputError, choose, reason
from attn_jax.runs.executor import end_children

# Options of `sbatch` that may be passed on, and what they ask for.
OPTIONS = {
    "account": "account to charge",
    "begin": "when jobs may begin, such as now+1hour",
    "comment": "a comment",
    "constraint": "features of nodes",
    "cpus-per-task": "processor cores of a job",
    "dependency": "jobs to wait for, such as afterok:12",
    "exclude": "nodes to leave out",
    "export": "variables of the environment to hand on; by default all",
    "gpus-per-task": "GPUs of a job, such as 1 or a100:1",
    "gres": "generic resources of a job, such as gpu:1",
    "licenses": "licences of a job",
    "mail-type": "events to send mail upon",
    "mail-user": "where to send mail",
    "mem": "memory of a job, such as 8G",
    "mem-per-cpu": "memory of a job for each core",
    "mem-per-gpu": "memory of a job for each GPU",
    "nice": "how much the priority is lowered",
    "nodelist": "nodes to use",
    "partition": "partition",
    "qos": "quality of service",
    "reservation": "reservation",
    "signal": "notice before the end, such as USR2@300; train.grace must fit into it",
    "time": "time limit of a job, which goes on in the queue when it is reached",
    "wckey": "key of the workload",
}
USUAL = {"time": "1:00:00"}  # short jobs find gaps between long ones
YEAR = 365 * 24 * 60  # minutes
ASK_EVERY = 15.0  # seconds between questions to Slurm


@dataclasses.dataclass
class Call:
    """What a job does, which submitit tells when the job is about to end."""

    function: Callable
    arguments: tuple
    settings: Mapping[str, Any]

    def __call__(self) -> tuple[Any, Exception | None]:
        """What the function returns, and what it raises."""
        try:
            return self.function(*self.arguments, **self.settings), None
        except InputError as error:  # which submitit would tell as a traceback
            return None, error

    def checkpoint(self) -> Any:
        """Has the run save; returns what the job does when it is started again."""
        end_children()
        return _submitit().helpers.DelayedSubmission(self)


class Slurm(Executor):
    """Slurm, whose commands this machine must have. Its jobs go on if this process ends.

    Args:
      options: of `sbatch`, by the names in `OPTIONS`.
      folder: for the output of the jobs.
      cluster: what submitit calls it: `slurm`, or `local` for processes of this machine.

    Raises:
      InputError: an option is not among them, or there is no submitit or no Slurm on this machine.
    """

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        folder: str | Path = "slurm",
        cluster: str = "slurm",
    ):
        options = dict(options or {})
        for name in options:
            choose(OPTIONS, name, "option of sbatch")
        try:
            self._executor = _submitit().AutoExecutor(Path(folder).absolute(), cluster=cluster)
        except RuntimeError as error:
            raise InputError(f"there is no Slurm here: {error}") from error
        cores = options.get("cpus-per-task")
        self._executor.update_parameters(
            name="attn_jax",
            # By which submitit tells a job at its time limit from one that makes room for another;
            # only the latter may go on as often as it likes.
            timeout_min=YEAR,
            slurm_additional_parameters={"requeue": True, **USUAL, **options},
            # `srun` does not look at what `sbatch` was told.
            slurm_srun_args=[f"--cpus-per-task={cores}"] if cores else [],
        )
        self._is_slurm, self._jobs = cluster == "slurm", dict[Future, Any]()
        self._lock = threading.Lock()

    def submit(self, function: Callable, /, *arguments: Any, **settings: Any) -> Future:
        """A job that calls a function.

        Raises:
          InputError: Slurm refuses it.
        """
        try:
            job = self._executor.submit(Call(function, arguments, settings))
        except Exception as error:  # there are several types, and of the system
            raise InputError(f"Slurm refuses the job: {reason(error)}") from error
        future: Future = Future()
        with self._lock:
            if not self._jobs:
                threading.Thread(target=self._follow, daemon=True).start()
            self._jobs[future] = job
        return future

    def _follow(self) -> None:
        """Sets the results of jobs as they end, until none is left."""
        while True:
            with self._lock:
                jobs = dict(self._jobs)
                if not jobs:
                    return
            time.sleep(ASK_EVERY if self._is_slurm else 0.5)
            queue = _queue() if self._is_slurm else None
            for future, job in jobs.items():
                is_local = not self._is_slurm and job.done()
                is_gone = queue is not None and str(job.job_id) not in queue
                if job.paths.result_pickle.exists() or is_gone or is_local:
                    _finish(future, job)
                    with self._lock:
                        del self._jobs[future]


def _finish(future: Future, job: Any) -> None:
    """Sets the result of a job that is over."""
    if not future.set_running_or_notify_cancel():
        return
    if not job.paths.result_pickle.exists():
        said = f"there is no result of job {job.job_id} (see {job.paths.stderr})"
        future.set_exception(InputError(said))
        return
    try:
        value, error = job.result()
    except Exception as failure:  # a fault, whose traceback submitit tells
        value, error = None, failure
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _queue() -> set[str] | None:
    """The jobs that Slurm has; None if it cannot say at the moment.

    Not asked of submitit, which asks the accounting, and that may be off.
    """
    ask = ["squeue", "--noheader", "--me", "--format=%A"]
    try:
        asked = subprocess.run(ask, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return set(asked.stdout.split())


def _submitit() -> ModuleType:
    try:
        return importlib.import_module("submitit")
    except ImportError as error:
        raise InputError(
            "executor=slurm needs submitit, which an extra installs: "
            f"pip install 'attn-jax[slurm]' ({error})"
        ) from error
