"""The measured side of a benchmark: a process that times a repetition for each line that it reads.

It gets a function and its settings, and writes lines of JSON: one when it is ready (everything is
compiled and has run once), one with the seconds of each timed repetition, and a last one with its
peak memory. Before each timed repetition, it warms up for half a second: while a side waits, a
virtual machine may take back the memory that it freed, which slows down its next few repetitions,
and threads of the previous side may still spin. Training steps, too, follow one another without a
pause.

It needs nothing but Python's standard library, since peers run it in an environment of their own.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

WARMING = 0.5  # seconds


def memory() -> float:
    """The peak memory of this process, in MiB."""
    # On Linux, a process inherits the `ru_maxrss` of its parent, but not this.
    status = Path("/proc/self/status").read_text()
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return int(peak) / 1024


def serve(*tasks: Callable[..., Callable[[], None]]) -> None:
    """Answers the requests of `compare`, for the task that the first argument names.

    Args:
      tasks: from the settings, the second argument, to a function that does one repetition, and
        returns only when it is complete.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps what libraries print out of the answers

    def answer(**figures: float) -> None:
        print(json.dumps({name.replace("_", " "): x for name, x in figures.items()}), file=answers)
        answers.flush()

    begun = time.perf_counter()
    task = {task.__name__: task for task in tasks}[sys.argv[1]]
    repeat = task(**json.loads(sys.argv[2]))
    before = memory()
    repeat()
    answer(first_seconds=time.perf_counter() - begun)
    for _ in sys.stdin:
        begun = time.perf_counter()
        while time.perf_counter() - begun < WARMING:
            repeat()
        begun = time.perf_counter()
        repeat()
        answer(seconds=time.perf_counter() - begun)
    answer(peak_MiB=memory(), grown_MiB=memory() - before)
