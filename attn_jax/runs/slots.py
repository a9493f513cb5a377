"""Slots for the runs of a sweep: each has cores of the processor, or GPUs, of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from attn_jax.errors import InputError

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
