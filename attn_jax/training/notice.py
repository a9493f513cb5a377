"""Signals that tell training to end: it saves first, and a second signal ends it at once."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import jax
from jax.experimental import multihost_utils

from attn_jax.errors import TRY_AGAIN, Terminated

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds in which further signals are the same one: a terminal and a sweep may both send it.
SAME = 1.0

# How this process ends at once. Only a program decides that: a notebook goes on after an interrupt.
_end: list[Callable[[int], Any]] = []


def end_at_once_by(end: Callable[[int], Any]) -> None:
    """Sets how the process ends at once, from its exit status; without it, nothing but raises."""
    _end[:] = [end]


class Told(KeyboardInterrupt):
    """A signal has told training to end."""


class Notice(contextlib.AbstractContextManager):
    """Takes signals that tell training to end, while it lasts.

    The first is kept for training to look at. A second raises KeyboardInterrupt, or ends a program
    at once; so does the end of the grace of a program. What this process ignores stays ignored, and
    nothing is taken outside of the main thread.

    Where JAX is distributed, it takes SIGTERM, and has all processes end after the same step; an
    interrupt of one process is handed on to it.

    Args:
      grace: seconds that the process has after the first signal.
    """

    def __init__(self, grace: float):
        self._grace = grace
        self._number: int | None = None  # of the first signal
        self._at = 0.0  # when it came
        self._raises = False
        self._came, self._over = threading.Event(), False
        self._before: dict[int, Any] = {}

    @property
    def given(self) -> bool:
        """Whether a signal has come."""
        return self._number is not None

    def told(self, step: int) -> bool:
        """Whether training is to end after a step: by a signal, or by the cluster.

        Where JAX is distributed, all processes must ask after each step.
        """
        if jax.distributed.is_initialized() and multihost_utils.reached_preemption_sync_point(step):
            self._number, self._at = signal.SIGTERM, time.monotonic()
            self._came.set()
        return self.given

    @property
    def name(self) -> str:
        """The name of the signal that has come."""
        return signal.Signals(self._number or 0).name

    def __enter__(self) -> "Notice":
        if threading.current_thread() is not threading.main_thread():
            return self
        hear = _hand_on if jax.distributed.is_initialized() else self._hear
        for number in _ours():
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):  # None: code that is not Python's handles it
                self._before[number] = signal.signal(number, hear)
        if _end:  # begun now, since a handler must not begin threads
            threading.Thread(target=self._end_late, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._over = True
        self._came.set()

    @contextlib.contextmanager
    def interrupting(self) -> Iterator[None]:
        """Raises Told in the body when a signal comes, or at its begin if one has come."""
        self._raises = True
        try:
            if self.given:
                raise Told
            yield
        finally:
            self._raises = False

    def _hear(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if self._number is None:
            self._number, self._at = number, now
            self._came.set()
        elif now - self._at >= SAME:
            for end in _end:
                end(128 + number)
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        # Of the same signal too: the first exception may be lost in code that can raise none.
        if self._raises:
            raise Told

    def _end_late(self) -> None:
        self._came.wait()
        if not self._over:
            time.sleep(self._grace)
            if not self._over:
                os.write(2, f"not saved within {self._grace:g} s: ended without\n".encode())
                for end in _end:
                    end(TRY_AGAIN)


def _ours() -> tuple[signal.Signals, ...]:
    """The signals that this process may take; where JAX is distributed, it has taken SIGTERM."""
    return (signal.SIGINT,) if jax.distributed.is_initialized() else SIGNALS


def _hand_on(*_: object) -> None:
    """Tells JAX of an interrupt of this process, which tells all others."""
    os.kill(os.getpid(), signal.SIGTERM)
