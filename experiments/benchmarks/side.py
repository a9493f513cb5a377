"""The measured side of a benchmark: a process that does one repetition for each line that it reads.

It gets its case as JSON, and answers each line with a line of JSON: first when it is ready (all is
compiled and has run once), then with the seconds of a repetition, last with its peak memory. Before
each timed repetition, others run for half a second: while a side waits, a virtual machine may take
back the memory that it freed, for which the first few then pay, and threads of the previous side
may still spin. Steps of training, too, follow one another without a pause.

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
    """The most memory that the process has held, in MiB."""
    # Linux hands the `ru_maxrss` of a parent on to its children, but not this.
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) / 1024


def serve(prepare: Callable[..., Callable[[], None]]) -> None:
    """Answers the program that compares.

    Args:
      prepare: from the case's settings to what does one repetition, and is done when it returns.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(**found: float) -> None:
        print(json.dumps(found), file=answers, flush=True)

    begun = time.perf_counter()
    repeat = prepare(**json.loads(sys.argv[1]))
    before = memory()
    repeat()
    answer(first=time.perf_counter() - begun)
    for _ in sys.stdin:
        begun = time.perf_counter()
        while time.perf_counter() - begun < WARMING:
            repeat()
        begun = time.perf_counter()
        repeat()
        answer(seconds=time.perf_counter() - begun)
    answer(peak=memory(), grown=memory() - before)
