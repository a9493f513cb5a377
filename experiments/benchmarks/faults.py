"""Faults on purpose: `./launch.sh bench --only=faults`.

Runs are stopped, and files of a run are damaged, so often and in such ways as no one would by hand.
"""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from experiments.benchmarks.damaged_files import damaged
from experiments.benchmarks.stopped_runs import KINDS, signalled

KILLS, REQUESTS = 100, 20  # SIGKILLs and SIGTERMs, shared out among the kinds of runs
CORES = len(os.sched_getaffinity(0))
FLIPS, CUTS = 1000, 200  # bytes of which a bit is flipped, and files that are cut


def faults() -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of each kind of runs that are stopped, then of the files that are damaged."""
    share = len(KINDS)
    with (
        tempfile.TemporaryDirectory() as made,
        ThreadPoolExecutor(max(1, CORES // 2)) as threads,  # each waits for processes of its own
        ProcessPoolExecutor(1, get_context("spawn")) as process,
    ):
        running = {
            name: threads.submit(
                signalled, Path(made, str(number)), kind, KILLS // share, REQUESTS // share, number
            )
            for number, (name, kind) in enumerate(KINDS.items())
        }
        running["damaged files"] = process.submit(damaged, Path(made, "damaged"), FLIPS, CUTS, 0)
        for name, figures in running.items():
            yield name, figures.result()
