"""Compares the sides of a case: all are alive at once, and take turns, one at a time."""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from attn_jax.errors import InputError

T = TypeVar("T")
ROOT = Path(__file__).parents[2]  # where peers find their modules without an installation


class Measured(NamedTuple):
    """The time and memory that one side took."""

    seconds: list[float]  # of each repetition
    first: float  # seconds after imports until ready: inputs, compilation, the first repetition
    peak: float  # memory in MiB
    grown: float  # growth of the peak since the inputs were ready, in MiB

    @property
    def median(self) -> float:
        """Seconds of a repetition."""
        return statistics.median(self.seconds)


class Side:
    """A process that does one timed repetition per request. See `side`.

    Args:
      name: its name in tables.
      command: the Python and the arguments that start it.
      case: the settings of the case.
    """

    def __init__(self, name: str, command: Sequence[str], case: Mapping[str, Any]):
        self.name = name
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, json.dumps(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        # Not None, as both are pipes.
        self.requests = cast(IO[str], self.process.stdin)
        self.answers = cast(IO[str], self.process.stdout)

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.requests, self.answers, self.complaints):
            with contextlib.suppress(BrokenPipeError):  # closing sends what it has not read
                stream.close()

    def read(self) -> dict[str, float]:
        """The next answer.

        Raises:
          InputError: the process has ended without one.
        """
        line = self.answers.readline()
        if not line:
            self.complaints.seek(0)
            said = self.complaints.read().strip().splitlines() or ["nothing"]
            raise InputError(f"{self.name} ended: {said[-1]}")
        return json.loads(line)

    def repeat(self) -> float:
        """The seconds of one repetition."""
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `read` reports
            print(file=self.requests, flush=True)
        return self.read()["seconds"]

    def end(self) -> dict[str, float]:
        """The last answer."""
        self.requests.close()
        return self.read()


def compare(sides: Sequence[Side], rounds: int) -> tuple[dict[str, Measured], dict[str, str]]:
    """Measures the sides in a number of rounds; in each, all sides take turns.

    Returns:
      The measurements of each side, and the reason for each side that is left out because it ended
      early. A peer does so if its libraries cannot run the case on this machine, or if memory runs
      out.

    Raises:
      InputError: the first side ended early.
    """
    ended: dict[str, str] = {}

    def answers(ask: Callable[[Side], T]) -> dict[str, T]:
        answered = {}
        for side in sides:
            if side.name in ended:
                continue
            try:
                answered[side.name] = ask(side)
            except InputError as error:
                if side is sides[0]:
                    raise
                ended[side.name] = str(error)
        return answered

    with contextlib.ExitStack() as running:
        for side in sides:
            running.enter_context(side)
        ready = answers(Side.read)
        turns = [answers(Side.repeat) for _ in range(rounds)]
        last = answers(Side.end)
    measured = {
        name: Measured([turn[name] for turn in turns], ready[name]["first"], **memory)
        for name, memory in last.items()
    }
    return measured, ended
