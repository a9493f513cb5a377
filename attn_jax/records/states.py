"""The state of a run, in its folder: who trains it and how far it is, or why it failed."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError, reason
from attn_jax.files import write_whole
from attn_jax.records import run_files, strict_json

BEAT = 10.0  # seconds between two records of a run that is trained
DEAD = 60.0  # seconds without one after which a process of another machine counts as dead

RUNNING, FINISHED, FAILED, PAUSED = "running", "finished", "failed", "paused"


def read(folder: Path) -> dict[str, Any]:
    """What is recorded: the `state`, and `host`, `pid`, `step`, `loss`, `why`; nothing if unknown.

    It says nothing that another record does not say too, so what is damaged is ignored.
    """
    try:
        said = strict_json.loads(run_files.state(folder).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def tell(folder: Path, state: str, **said: Any) -> None:
    """Records the state of a run; does nothing where it cannot be written."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(run_files.state(folder), strict_json.dumps({"state": state, **said}) + "\n")


def forget(folder: Path) -> None:
    """Removes the record of a run that no process trains."""
    if not is_trained_now(folder):
        run_files.state(folder).unlink(missing_ok=True)


def finish(folder: Path) -> None:
    """Records that a run is finished, if anything else is recorded."""
    if read(folder).get("state", FINISHED) != FINISHED:
        tell(folder, FINISHED)


def failed(folder: Path, error: Exception) -> None:
    """Records why a run has failed, unless it is trained by another process."""
    if not is_trained_now(folder):
        why = str(error) if isinstance(error, InputError) else reason(error)
        tell(folder, FAILED, why=why)


def is_trained_now(folder: Path) -> bool:
    """Whether a process trains the run, as far as can be seen from this machine."""
    said = read(folder)
    if said.get("state") != RUNNING:
        return False
    if said.get("machine") != machine():
        with contextlib.suppress(OSError):
            return time.time() - run_files.state(folder).stat().st_mtime < DEAD
        return False
    try:
        os.kill(int(said.get("pid", 0)), 0)
    except (ProcessLookupError, ValueError, TypeError):
        return False
    except PermissionError:  # another user's process has got the number of one that is dead
        return False
    return True


def machine() -> str:
    """What tells this machine from others, until it is started again; its name if unknown."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[Callable[[int, float], None]]:
    """Records that this process trains a run, now and then how far it is, and how it ended.

    Yields:
      What to call with steps done and a loss.
    """
    began: list[tuple[int, float]] = []
    said: dict[str, Any] = {"machine": machine(), "host": socket.gethostname(), "pid": os.getpid()}
    over = threading.Event()

    def on_step(step: int, loss: float) -> None:
        now = time.monotonic()
        began[:] = began or [(step, now)]
        first, at = began[0]
        rate = (step - first) / (now - at) if step > first else 0.0
        said.update(step=step, loss=loss, steps_per_second=rate)

    def beat() -> None:
        tell(folder, RUNNING, **said)
        while not over.wait(BEAT):
            tell(folder, RUNNING, **said)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    state = PAUSED
    try:
        yield on_step
        state = RUNNING  # until it is evaluated too
    finally:
        over.set()
        thread.join()
        tell(folder, state, **said)
