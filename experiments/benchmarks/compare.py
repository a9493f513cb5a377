"""Compares sides of a benchmark: all alive at once, one at work at a time, in turn."""

import json
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax.errors import InputError

ROOT = Path(__file__).parents[2]  # where peers, which have not installed it, find their modules


class Measured(NamedTuple):
    """What one side took."""

    seconds: list[float]  # of each repetition
    first: float  # until it was ready: imports, compilation, the first repetition
    peak: float  # memory in MiB
    grown: float  # by how much the peak grew from when the inputs were ready, in MiB

    @property
    def median(self) -> float:
        """Seconds of a repetition."""
        return statistics.median(self.seconds)


class Side:
    """A process that does one repetition when it is asked to. See `side`.

    Args:
      name: what tables call it.
      command: the Python and the arguments that start it.
      case: its settings.
    """

    def __init__(self, name: str, command: Sequence[str], case: Mapping[str, Any]):
        self.name = name
        self.process = subprocess.Popen(
            [*command, json.dumps(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    def read(self) -> dict[str, float]:
        """The next answer.

        Raises:
          InputError: the process has ended without one.
        """
        line = self.process.stdout.readline()
        if not line:
            said = self.process.stderr.read().strip().splitlines() or ["nothing"]
            raise InputError(f"{self.name} ended: {said[-1]}")
        return json.loads(line)

    def repeat(self) -> float:
        """The seconds of one repetition."""
        print(file=self.process.stdin, flush=True)
        return self.read()["seconds"]

    def end(self) -> dict[str, float]:
        """The last answer."""
        self.process.stdin.close()
        last = self.read()
        self.process.wait()
        return last


def compare(sides: Sequence[Side], rounds: int) -> dict[str, Measured]:
    """What each side took in so many rounds, in each of which every side has its turn."""
    first, seconds = {}, {side.name: [] for side in sides}
    for side in sides:
        first[side.name] = side.read()["first"]
    for _ in range(rounds):
        for side in sides:
            seconds[side.name].append(side.repeat())
    return {
        side.name: Measured(seconds[side.name], first[side.name], **side.end()) for side in sides
    }
