"""The processes that a worker has started, which end with it."""

import subprocess
import threading
from collections.abc import Callable


class Children:
    """Processes that threads start and wait for, and that are told to end together."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen] = []
        self._lock, self._ended = threading.Lock(), False

    @property
    def ended(self) -> bool:
        """Whether they have been told to end; no other is started then."""
        return self._ended

    def start(self, popen: Callable[[], subprocess.Popen]) -> subprocess.Popen | None:
        """Starts a process; None if they have been told to end."""
        with self._lock:
            if self._ended:
                return None
            process = popen()
            self._started.append(process)
            return process

    def end(self) -> None:
        """Tells all to end, which may have got the signal from the terminal too; waits for them."""
        with self._lock:
            self._ended = True
        for process in self._started:
            process.terminate()  # has no effect on one that has ended
        for process in self._started:
            process.wait()
