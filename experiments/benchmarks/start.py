"""How long it takes to start: imports, and a run of one step, also on a large text."""

import os
import random
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


def large_text(folder: Path) -> list[str]:
    """Writes a million pairs of 8 words on each side; returns the flags of a run on them."""
    drawn, words = random.Random(0), [f"word{number}" for number in range(60_000)]
    lines = (drawn.choices(words, k=16) for _ in range(1_000_000))
    with (folder / "train.tsv").open("w") as file:
        file.writelines(f"{' '.join(line[:8])}\t{' '.join(line[8:])}\n" for line in lines)
    (folder / "valid.tsv").write_text("word1 word2\tword3 word4\n")
    files = [f"--data.{split}={folder / split}.tsv" for split in ("train", "valid")]
    return ["--data.name=parallel", "--data.words=30000", *files]


def start(rounds: int) -> dict[str, Any]:
    """Seconds and peak memory of each kind of start, interleaved; the data are prepared first."""
    kinds = "import", "one step, cold", "one step, cached", "one step on a million pairs, cached"
    measured: dict[str, Any] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)

        def run(name: str, cache: Path, data: Sequence[str]) -> tuple[float, float]:
            flags = [f"--workdir={folder / name}", "--train.steps=1", *data]
            return timed([sys.executable, "-m", "attn_jax", "train", *flags], cache)

        small, large = [f"--data.directory={folder / 'data'}"], large_text(folder)
        warm = folder / "warm"  # the cache of the runs on the large text
        run("first", warm, small)
        run("first large", warm, large)
        for number in range(rounds):
            cache = folder / f"cache{number}"
            measured[kinds[0]].append(
                timed([sys.executable, "-c", "import attn_jax.runs.training"], cache)
            )
            measured[kinds[1]].append(run(f"cold{number}", cache, small))
            measured[kinds[2]].append(run(f"cached{number}", cache, small))
            measured[kinds[3]].append(run(f"large{number}", warm, large))
    return {
        name: {
            "seconds": [seconds for seconds, _ in values],
            "peak": statistics.median(peak for _, peak in values),
        }
        for name, values in measured.items()
    }
