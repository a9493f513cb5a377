"""How long it takes to start: imports, and a run of one step."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError

from .compare import ROOT

# On Linux, a process inherits the peak memory of its parent: this parent is small.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=2).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def timed(command: Sequence[str], cache: Path) -> tuple[float, float]:
    """The seconds that a command takes, and its peak memory in MiB.

    Args:
      command: the program and its arguments.
      cache: the folder for its compiled programs.

    Raises:
      InputError: the command failed.
    """
    # As for users: with JAX's own variable, what compiles in under a second would not be cached.
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    begun = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=environment | {"ATTN_JAX_CACHE": str(cache)},
        check=False,
    )
    seconds = time.perf_counter() - begun
    if ended.returncode:
        raise InputError(f"{' '.join(command)} ended with status {ended.returncode}")
    return seconds, int(ended.stdout) / 1024


def start(rounds: int) -> dict[str, Any]:
    """Seconds and peak memory of each kind of start, interleaved; the data are prepared first."""
    measured: dict[str, Any] = {"import": [], "one step, cold": [], "one step, cached": []}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)

        def run(number: int, cache: Path) -> tuple[float, float]:
            flags = [
                f"--workdir={folder / str(number)}",
                f"--data.directory={folder / 'data'}",
                "--train.steps=1",
            ]
            return timed([sys.executable, "-m", "attn_jax", "train", *flags], cache)

        run(0, folder / "none")
        for number in range(rounds):
            cache = folder / f"cache{number}"
            measured["import"].append(
                timed([sys.executable, "-c", "import attn_jax.runs.training"], cache)
            )
            measured["one step, cold"].append(run(3 * number + 1, cache))
            measured["one step, cached"].append(run(3 * number + 2, cache))
    return {
        name: {
            "seconds": [seconds for seconds, _ in values],
            "peak": statistics.median(peak for _, peak in values),
        }
        for name, values in measured.items()
    }
