"""Compares the sides of a case: all are alive at once, and take turns, one at a time."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from attn_jax.errors import InputError

T = TypeVar("T")
ROOT = Path(__file__).parents[2]  # where peers find their modules without an installation


class Side:
    """A process that does one timed repetition per request. See `side`.

    Args:
      name: its name in tables.
      command: the Python and the arguments that start it.
      settings: those of the case.
    """

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, Any]):
        self.name = name
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, json.dumps(settings)],
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
        """The milliseconds of one repetition."""
        with contextlib.suppress(BrokenPipeError):  # it has ended, which `read` reports
            print(file=self.requests, flush=True)
        return 1e3 * self.read()["seconds"]

    def end(self) -> dict[str, float]:
        """The last answer."""
        self.requests.close()
        return self.read()


def compare(sides: Sequence[Side], rounds: int) -> dict[str, dict[str, Any]]:
    """Measures the sides in a number of rounds; in each, all sides take turns.

    Returns:
      The figures of each side: milliseconds of each repetition, its memory, and seconds after
      imports until the first repetition was done. Of a side that ended early, only why: the
      libraries of a peer may be unable to run the case on this machine, or memory may run out.

    Raises:
      InputError: the first side ended early.
    """
    ended: dict[str, dict[str, Any]] = {}

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
                ended[side.name] = {"ended": str(error)}
        return answered

    with contextlib.ExitStack() as running:
        for side in sides:
            running.enter_context(side)
        ready = answers(Side.read)
        turns = [answers(Side.repeat) for _ in range(rounds)]
        last = answers(Side.end)
    return {
        name: {"ms": [turn[name] for turn in turns], **memory, **ready[name]}
        for name, memory in last.items()
    } | ended
