"""Runs of a sweep as tasks of Ray, on a cluster that there is, or one on this machine alone.

A task that is lost, with its worker or its whole machine, is retried, and its run goes on from the
last checkpoint. All machines need the folder of the sweep, and this package.
"""

import dataclasses
import os
import signal
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError, reason
from attn_jax.runs.engines import needed
from attn_jax.runs.one_run import OneRun
from attn_jax.settings.fields import checked, fields, option

SAVING = 60.0  # seconds in which runs have saved after an interrupt


@dataclasses.dataclass(frozen=True)
class Ray:
    """A cluster of Ray, and what a run gets of it.

    Raises:
      InputError: a value is out of bounds.
    """

    address: str = option("", "of a cluster, such as auto or 10.0.0.5:6379; empty: start one here")
    cpus: int = option(1, "processor cores of a run", low=1)
    gpus: float = option(
        -1.0, "GPUs of a run, or a part of one; -1: one if the cluster has any", low=-1
    )
    retries: int = option(5, "how often a run is tried again whose worker was lost", low=0)

    def __post_init__(self) -> None:
        checked(OPTIONS, vars(self))

    def check(self) -> None:
        """Raises InputError if there is no Ray on this machine."""
        needed("ray", "ray")

    def start(self, root: Path, numbers: Sequence[int], at_once: int) -> "Tasks":
        """Makes tasks; see `Engine.start`."""
        ray = self._connect(at_once)
        has = ray.cluster_resources().get("GPU", 0)
        gpus = min(has, 1) if self.gpus < 0 else self.gpus
        if gpus > has and not self.address:
            ray.shutdown()
            raise InputError(f"ray.gpus={gpus:g}: this machine has {has:g}")
        task = ray.remote(num_cpus=self.cpus, num_gpus=gpus, max_retries=self.retries)(_make)
        # As a run alone on so many cores computes.
        cores = {"PJRT_NPROC": str(self.cpus)}
        runs = {number: OneRun(root.absolute(), number, cores) for number in numbers}
        return Tasks(ray, task, runs, at_once)

    def _connect(self, at_once: int) -> Any:
        """Ray, connected to the cluster; one of this machine has room for so many runs."""
        ray = needed("ray", "ray")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        own: dict[str, Any] = {"address": "local", "include_dashboard": False}
        own["num_cpus"] = at_once * self.cpus or max(os.cpu_count() or 1, self.cpus)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with warnings.catch_warnings():
                # What is forked here only starts another program.
                warnings.filterwarnings("ignore", r"os\.fork\(\) was called")
                ray.init(
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({"address": self.address} if self.address else own),
                )
        except Exception as error:  # there are several types, also for one cause
            raise InputError(f"Ray does not start: {reason(error)}") from error
        finally:
            signal.signal(signal.SIGTERM, handler)
        return ray


OPTIONS = dict(fields(Ray))


def _make(run: OneRun) -> str:
    return run()


class Tasks:
    """Tasks of Ray; see `engines.Jobs`.

    Args:
      ray: the library, connected.
      task: makes one of a run.
      runs: by their numbers.
      at_once: most tasks at a time; 0: all.
    """

    def __init__(self, ray: Any, task: Any, runs: dict[int, OneRun], at_once: int):
        self._ray, self._task, self._runs = ray, task, runs
        self._waiting, self._at_once = list(runs), at_once or len(runs)
        self._tasks: dict[int, Any] = {}
        self.told = f"Ray has {len(runs)} runs"

    def are_over(self) -> bool:
        """Whether all have ended; makes more if there is room."""
        working = self._working()
        while self._waiting and len(working) < self._at_once:
            number = self._waiting.pop(0)
            self._tasks[number] = self._task.remote(self._runs[number])
            working.append(self._tasks[number])
        return not working

    def why(self, number: int) -> str:
        """What the task said, or why it was lost."""
        try:
            return self._ray.get(self._tasks[number])
        except Exception as error:
            return reason(error)

    def leave(self, interrupted: bool) -> None:
        """Ends those that are at work, whose runs save, and lets go of the cluster."""
        if interrupted:
            working = self._working()
            for task in working:
                self._ray.cancel(task)
            if working:
                self._ray.wait(working, num_returns=len(working), timeout=SAVING)
        self._ray.shutdown()

    def _working(self) -> list[Any]:
        tasks = list(self._tasks.values())
        if not tasks:
            return []
        return self._ray.wait(tasks, num_returns=len(tasks), timeout=0)[1]
