"""Runs of a sweep as jobs of Slurm, by submitit: an array, of which each job makes one run.

Before Slurm ends a job, at its time limit or for another one, it tells it; the run then saves, and
the job goes back into the queue.
"""

import dataclasses
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError, choose, reason
from attn_jax.runs.engines import needed
from attn_jax.runs.one_run import OneRun

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


class Notified(OneRun):
    """One run, which submitit tells when its job is about to end."""

    def checkpoint(self) -> Any:
        """Has the run save; returns what the job does when it is started again."""
        self.save()
        return needed("submitit", "slurm").helpers.DelayedSubmission(self.anew())


@dataclasses.dataclass(frozen=True)
class Slurm:
    """Slurm, whose commands this machine must have.

    Attributes:
      options: of `sbatch`, by the names in `OPTIONS`.
      cluster: what submitit calls it: `slurm`, or `local` for processes of this machine.

    Raises:
      InputError: an option is not among them.
    """

    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    cluster: str = "slurm"

    def __post_init__(self) -> None:
        for name in self.options:
            choose(OPTIONS, name, "option of sbatch")

    def check(self) -> None:
        """Raises InputError if there is no submitit, or no Slurm on this machine."""
        self._executor(Path())

    def start(self, root: Path, numbers: Sequence[int], at_once: int) -> "Submitted":
        """Submits an array of jobs; see `Engine.start`."""
        executor, root = self._executor(root / "slurm"), root.absolute()
        options = {"requeue": True, **USUAL, **self.options}
        cores = self.options.get("cpus-per-task")
        executor.update_parameters(
            name=f"sweep-{root.name}",
            # By which submitit tells a job at its time limit from one that makes room for another;
            # only the latter may go on as often as it likes.
            timeout_min=YEAR,
            slurm_array_parallelism=at_once or len(numbers),
            slurm_additional_parameters=options,
            # `srun` does not look at what `sbatch` was told.
            slurm_srun_args=[f"--cpus-per-task={cores}"] if cores else [],
        )
        try:
            jobs = executor.submit_array([Notified(root, number) for number in numbers])
        except Exception as error:  # there are several types, and of the system
            raise InputError(f"Slurm refuses the jobs: {reason(error)}") from error
        name = str(jobs[0].job_id).partition("_")[0]

        def are_left() -> bool:
            on_slurm = self.cluster == "slurm"
            return _in_queue(name) if on_slurm else not all(job.done() for job in jobs)

        return Submitted(dict(zip(numbers, jobs, strict=True)), name, are_left)

    def _executor(self, folder: Path) -> Any:
        submitit = needed("submitit", "slurm")
        try:
            return submitit.AutoExecutor(folder, cluster=self.cluster)
        except RuntimeError as error:
            raise InputError(f"there is no Slurm here: {error}") from error


class Submitted:
    """Jobs of submitit; see `engines.Jobs`.

    Args:
      jobs: by the numbers of their runs.
      name: of all of them, for Slurm.
      are_left: whether some are in the queue or at work.
    """

    def __init__(self, jobs: Mapping[int, Any], name: str, are_left: Callable[[], bool]):
        self._jobs, self._are_left, self._asked = jobs, are_left, float("-inf")
        self.told = (
            f"Slurm has {len(jobs)} jobs: {name}. They go on if this command is interrupted; "
            f"`scancel {name}` ends them"
        )

    def are_over(self) -> bool:
        """Whether all have ended."""
        if all(map(_has_result, self._jobs.values())):
            return True
        if time.monotonic() - self._asked < ASK_EVERY:
            return False
        self._asked = time.monotonic()
        return not self._are_left()

    def why(self, number: int) -> str:
        """What the process said, or where to look."""
        job = self._jobs[number]
        if not _has_result(job):
            return f"there is no result of job {job.job_id} (see {job.paths.stderr})"
        try:
            return job.result()
        except Exception as error:  # whatever the process has raised
            return reason(error)

    def leave(self, interrupted: bool) -> None:
        """Nothing: Slurm keeps its jobs."""


def _has_result(job: Any) -> bool:
    return job.paths.result_pickle.exists()


def _in_queue(name: str) -> bool:
    """Whether Slurm has jobs of an array that are not over.

    Not asked of submitit, which asks the accounting, and that may be off.
    """
    asked = subprocess.run(
        ["squeue", "--noheader", f"--jobs={name}"], capture_output=True, text=True
    )
    if asked.returncode:
        return "Invalid job id" not in asked.stderr  # else it cannot say at the moment
    return bool(asked.stdout.strip())
