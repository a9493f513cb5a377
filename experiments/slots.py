"""Slots for the runs of a sweep: each has cores of the processor, or GPUs, of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from attn_jax.errors import InputError

MOST_JOBS = 8  # runs at a time unless --jobs says other: each takes half a GiB of memory
MEMORY_SHARES = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")  # of a GPU's memory


class Slot(NamedTuple):
    """Room for one run at a time."""

    cores: Sequence[int]  # of the processor; none: bound to no cores
    environment: dict[str, str]  # beside what all runs have


def slots(jobs: int) -> list[Slot]:
    """As many as there are to be runs at a time; 0: one for each GPU or core.

    Small models are faster side by side on one core each than one by one on all. Fewer runs than
    GPUs have several of them each.

    Raises:
      InputError: JAX does not start, or several runs would want one TPU.
    """
    platform, count = devices()
    if platform == "gpu":
        jobs = jobs or count
        together = -(-jobs // count)  # on one GPU
        return [Slot([], _on_gpus(own, together)) for own in shares(range(count), jobs)]
    if platform != "cpu":
        if jobs > 1:
            raise InputError(f"--jobs={jobs}: a {platform.upper()} has one run at a time")
        # Named, so that JAX does not go to the processor where another process has the device.
        return [Slot([], {"JAX_PLATFORMS": f"{platform},cpu"})]
    if not hasattr(os, "sched_getaffinity"):
        return [Slot([], {})] * max(jobs, 1)
    cores = sorted(os.sched_getaffinity(0))
    return [Slot(own, {}) for own in shares(cores, jobs or min(len(cores), MOST_JOBS))]


def shares(things: Sequence[int], jobs: int) -> list[Sequence[int]]:
    """What each job has of the things: one part of them, or one that it shares."""
    return [things[nth::jobs] or [things[nth % len(things)]] for nth in range(jobs)]


def devices() -> tuple[str, int]:
    """The platform that runs will be on, and how many devices it has.

    Asked of another process: JAX takes most of a GPU's memory, or all of a TPU, as it looks.
    """
    ask = "import jax; print(jax.default_backend(), jax.local_device_count())"
    asked = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    if asked.returncode:
        reason = asked.stderr.strip().splitlines()[-1:]
        raise InputError(f"JAX does not start: {''.join(reason)}")
    sys.stderr.write(asked.stderr)  # such as why JAX does not use a device that is there
    platform, count = asked.stdout.split()[-2:]
    return platform, int(count)


def _on_gpus(own: Sequence[int], together: int) -> dict[str, str]:
    environment = {
        variable: _names(own, os.environ.get(variable))
        for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    }
    if together > 1 and not any(name in os.environ for name in MEMORY_SHARES):
        # Alone, a process takes three quarters of a GPU's memory as it begins.
        environment[MEMORY_SHARES[0]] = f"{0.9 / together:.2f}"
    return environment


def _names(own: Sequence[int], visible: str | None) -> str:
    """Of some GPUs, counted among those that this process may see."""
    names = visible.split(",") if visible else []
    if len(names) <= max(own):  # of another maker's GPUs
        return ",".join(map(str, own))
    return ",".join(names[nth].strip() for nth in own)
