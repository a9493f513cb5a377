"""One run of a sweep, as a process that an engine starts wherever it has room."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

from attn_jax.errors import INTERRUPTED, TRY_AGAIN

# Seconds before a run that someone else has interrupted goes on: who ends a whole job tells its
# processes first, and may mean to start it again elsewhere.
PAUSE = 60.0
# The notices of clusters, which are for the process that an engine has started, not for the run.
NOTICES = {signal.SIGUSR1, signal.SIGUSR2}


@dataclasses.dataclass
class OneRun:
    """A worker of a sweep for one run of its plan; engines send it to another machine and call it.

    Args:
      root: the folder of the sweep.
      number: of the run in the plan.
      environment: additional variables.
      folder: where the user's own modules are.
    """

    root: Path
    number: int
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    folder: str = dataclasses.field(default_factory=os.getcwd)

    def __call__(self) -> str:
        """Makes the run; returns why it could not, or nothing."""
        while True:
            status, said = self._work()
            if status not in (TRY_AGAIN, INTERRUPTED):
                return "" if status == 0 else said or f"status {status}"
            time.sleep(PAUSE)

    def _work(self) -> tuple[int, str]:
        """The status of the worker, and the last line of its errors."""
        command = [sys.executable, "-m", "attn_jax", "sweep", f"--workdir={self.root}", "--join"]
        with TemporaryFile("w+", errors="replace") as errors:
            self._is_told = False
            before = signal.pthread_sigmask(signal.SIG_BLOCK, NOTICES)
            try:
                self._process = subprocess.Popen(
                    [*command, f"--only={self.number}", "--jobs=1"],
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                    cwd=self.folder if os.path.isdir(self.folder) else None,
                    # Python is not to look for its own modules in the current folder.
                    env=os.environ | self.environment | {"PYTHONSAFEPATH": "1"},
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            try:
                # Not `wait`, which holds a lock that `save` would wait for, and which Ray's
                # interrupts do not end.
                while self._process.poll() is None:
                    time.sleep(0.1)
            except KeyboardInterrupt:
                self.save()
                self._process.wait()
                raise
            errors.seek(0)
            lines = errors.read().splitlines()
        print(*lines, sep="\n", file=sys.stderr)
        return self._process.returncode, (lines or [""])[-1].removeprefix("error: ")

    def save(self) -> None:
        """Has the run save and end; waits."""
        if not self._is_told:  # a cluster may repeat its notice, and a second signal ends at once
            self._is_told = True
            self._process.terminate()
        with contextlib.suppress(ChildProcessError):  # it has ended
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def anew(self) -> "OneRun":
        """The same, not yet begun."""
        return dataclasses.replace(self)
