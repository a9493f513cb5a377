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

STARTING, RUNNING, PAUSED = "starting", "running", "paused"
FINISHED, FAILED = "finished", "failed"
TIMES = ("start", "validation", "evaluation")  # in seconds; of a run, whatever becomes of it


def read(folder: Path) -> dict[str, Any]:
    """What is recorded: the `state`, `host`, `pid`, `step`, `loss`, `why`, `TIMES`; what is known.

    No result depends on it, so what is damaged is ignored.
    """
    try:
        said = strict_json.loads(run_files.state(folder).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def tell(folder: Path, state: str, **said: Any) -> None:
    """Records the state of a run beside its times; does nothing where it cannot be written."""
    said = {name: value for name, value in read(folder).items() if name in TIMES} | said
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(run_files.state(folder), strict_json.dumps({"state": state, **said}) + "\n")


def starting(folder: Path) -> None:
    """Records that this process starts one for a run, unless another process trains it."""
    if not is_trained_now(folder):
        tell(folder, STARTING, **_this_process(), began=time.time())


def stopped(folder: Path) -> None:
    """Records that a run is not going on whose process has ended before it could say so."""
    if read(folder).get("state") == STARTING:
        tell(folder, PAUSED)


def finish(folder: Path, **times: float) -> None:
    """Records that a run is finished, and what that took, if anything else is recorded."""
    if read(folder).get("state", FINISHED) != FINISHED:
        tell(folder, FINISHED, **times)


def failed(folder: Path, error: Exception) -> None:
    """Records why a run has failed, unless it is trained by another process."""
    said = read(folder)
    if not is_trained_now(folder) or said | _this_process() == said:
        why = str(error) if isinstance(error, InputError) else reason(error)
        tell(folder, FAILED, why=why)


def is_trained_now(folder: Path) -> bool:
    """Whether a process trains the run, as far as can be seen from this machine."""
    return read(folder).get("state") == RUNNING and _is_alive(folder)


def is_at_work(folder: Path) -> bool:
    """Whether a process trains the run, or is starting one that will."""
    return read(folder).get("state") in (STARTING, RUNNING) and _is_alive(folder)


def _is_alive(folder: Path) -> bool:
    """Whether the process lives that has recorded the state of a run last."""
    said = read(folder)
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


def _this_process() -> dict[str, Any]:
    return {"machine": machine(), "host": socket.gethostname(), "pid": os.getpid()}


@contextlib.contextmanager
def kept(folder: Path) -> Iterator[Callable[..., None]]:
    """Records that this process trains a run, now and then how far it is, and how it ended.

    Yields:
      What to call with what is known anew, by name: `step`, `loss`, and of `TIMES`.
    """
    said, over = _this_process(), threading.Event()
    before = read(folder)
    if before.get("state") == STARTING:
        said["start"] = time.time() - before.get("began", time.time())

    def beat() -> None:
        tell(folder, RUNNING, **said)
        while not over.wait(BEAT):
            tell(folder, RUNNING, **said)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    state = PAUSED
    try:
        yield said.update
        state = RUNNING  # until it is evaluated too
    finally:
        over.set()
        thread.join()
        tell(folder, state, **said)
