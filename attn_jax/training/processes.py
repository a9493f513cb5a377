"""Training in several processes: which one this is, its share of the work, what all agree on.

A process by itself is the first of one. What is said to be for all must be called by all processes,
in the same order, and not while a step is being computed: what they send would mix.
"""

import contextlib
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from attn_jax.errors import InputError, reason

T = TypeVar("T")

DEAD = 30  # seconds without a sign of life after which a process counts as dead, and all end
LEAVING = 120  # seconds that a process which ends waits for the others


def connect(
    coordinator: str | None, processes: int | None, process: int | None, wait: float
) -> None:
    """Makes this process one of several; to be called before JAX is used for anything else.

    Args:
      coordinator: `host:port` of the first process; None: as the cluster tells JAX.
      processes: how many there are; None: as the cluster tells.
      process: the number of this one, from 0 on; None: as the cluster tells.
      wait: seconds in which all processes have to come.

    Raises:
      InputError: JAX finds no cluster, the arguments do not fit together, or not all have come.
    """
    _check(coordinator, processes, process)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=round(wait),
            heartbeat_timeout_seconds=DEAD,
            shutdown_timeout_seconds=LEAVING,
        )
    except (ValueError, RuntimeError) as error:
        raise InputError(_why_alone(coordinator, processes, process, wait, error)) from error


def _check(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Raises InputError if these cannot be meant."""
    if coordinator is not None and not re.fullmatch(r".+:\d+", coordinator):
        raise InputError(f"distributed.coordinator must be host:port, got {coordinator!r}")
    if processes is not None and processes < 1:
        raise InputError(f"distributed.processes must be at least 1, got {processes}")
    if process is not None and (process < 0 or (processes and process >= processes)):
        most = " on" if processes is None else f" to {processes - 1}"
        raise InputError(f"distributed.process must be from 0{most}, got {process}")


def _why_alone(
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    wait: float,
    error: Exception,
) -> str:
    if None in (coordinator, processes, process):
        return (
            f"JAX finds no cluster that tells it of the other processes ({reason(error)}): give "
            "distributed.coordinator, distributed.processes and distributed.process"
        )
    return f"{not_met(wait)} ({reason(error)})"


def not_met(wait: float) -> str:
    """The message that not all processes have come; JAX may end this one without an exception."""
    return (
        f"the processes did not meet within {wait:g} s: all must be started, with the same "
        "distributed.coordinator and distributed.processes, and each with its own "
        "distributed.process"
    )


def count() -> int:
    """How many processes train together."""
    return jax.process_count() if jax.distributed.is_initialized() else 1


def index() -> int:
    """The number of this process."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def is_first() -> bool:
    """Whether this process writes the files of the run, and tells of its progress."""
    return index() == 0


def share(number: int) -> slice:
    """Which of so many rows or examples are for this process: as many for each, or one more."""
    return slice(number * index() // count(), number * (index() + 1) // count())


def gathered(value: T) -> list[T]:
    """The values of all processes, in their order."""
    if count() == 1:
        return [value]
    own = np.frombuffer(pickle.dumps(value), np.uint8)
    sizes = multihost_utils.process_allgather(np.array(own.size, np.int32))
    # Of few sizes, since a program is compiled for each.
    padded = np.zeros(1 << int(sizes.max()).bit_length(), np.uint8)
    padded[: own.size] = own
    every = multihost_utils.process_allgather(padded)
    return [pickle.loads(row[:size].tobytes()) for row, size in zip(every, sizes, strict=True)]


def total(number: int) -> int:
    """The sum of the numbers of all processes."""
    return sum(gathered(number))


def agreed(value: T) -> T:
    """The value of the first process, for all."""
    return gathered(value)[0]


def check_same(values: Callable[[], dict[str, object]]) -> None:
    """Raises InputError in all processes if these are not the same in all; one has no others."""
    if count() == 1:
        return
    first, *others = gathered(values())
    for number, theirs in enumerate(others, start=1):
        for name, value in first.items():
            if theirs.get(name) != value:
                raise InputError(
                    f"process {number} has {name}={theirs.get(name)}, and process 0 {name}="
                    f"{value}: all processes need the same"
                )


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Ends when all processes have come here; if the body fails in one, it fails in all.

    Raises:
      InputError: input cannot be used here, or not in another process.
      OSError: a file cannot be used here.
    """
    if count() == 1:
        yield
        return
    failed = None
    try:
        yield
    except (InputError, OSError) as error:  # others end this process, and so in time all
        failed = error
    said = gathered(None if failed is None else str(failed))
    if failed:
        raise failed
    for number, message in enumerate(said):
        if message is not None:
            raise InputError(f"process {number} says: {message}")


def by_first(action: Callable[[], object]) -> None:
    """Has the first process do something, while the others wait; if it fails, it fails in all."""
    with together():
        if is_first():
            action()


@contextlib.contextmanager
def only_first_tells() -> Iterator[None]:
    """Leaves out what the others print; their errors are raised as ever."""
    if is_first():
        yield
        return
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
