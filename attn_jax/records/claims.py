"""Which worker of a sweep makes a run: claims in the folder of the sweep, kept alive by beats.

The claims on a run are counted, and the last one holds. Each is a file of its own, which is made
only if there is none of that number, so of several workers that want to follow a claim, one does.
Who holds a claim writes into it again and again. Others see whether what is written changes, and
measure by their own clock for how long it has not: the clocks of two machines are not compared.
"""

import contextlib
import dataclasses
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError
from attn_jax.files import write_whole
from attn_jax.records import strict_json

BEAT = 10.0  # seconds between beats
DEAD = 60.0  # seconds without a beat after which a claim is taken over

RUNNING, FINISHED, FAILED, PAUSED = "running", "finished", "failed", "paused"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim on a run, as it is written.

    Attributes:
      number: of the claims on this run, from 1.
      said: the state, who holds it (`host`, `pid`, `machine`), and how far the run is (`step`,
        `steps_per_second`, `loss`), or why it failed (`why`); empty while it is being written.
    """

    number: int
    said: dict[str, Any]

    @property
    def state(self) -> str:
        """Of the run: one of the four."""
        return self.said.get("state", RUNNING)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether a process of this machine, not started again since, holds or held it."""
        return bool(machine()) and self.said.get("machine") == machine()


def machine() -> str:
    """What tells this machine from others, until it is started again; empty if unknown."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def last(folder: Path) -> Claim | None:
    """The claim that holds, of those in the folder of the claims on a run."""
    try:
        number = max(int(file.name) for file in folder.iterdir() if file.name.isdecimal())
    except (FileNotFoundError, ValueError):  # none, or not yet a folder
        return None
    try:
        said = strict_json.loads((folder / str(number)).read_text("utf-8"))
    except FileNotFoundError:  # removed meanwhile, by who has taken a later one
        return None
    except ValueError:
        said = None
    return Claim(number, said if isinstance(said, dict) else {})


def take(folder: Path, after: Claim | None) -> "Held | None":
    """Claims a run; None if another worker was faster.

    Args:
      folder: of the claims on it.
      after: the last claim, which no longer holds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = 1 + (after.number if after else 0)
    try:
        (folder / str(number)).open("x").close()
    except FileExistsError:
        return None
    held = Held(folder / str(number))
    if held.is_lost:  # others have taken later claims, and removed that of this number
        held.file.unlink(missing_ok=True)
        return None
    held.tell(state=RUNNING)
    for file in folder.iterdir():
        if file.name.isdecimal() and int(file.name) < number:
            file.unlink(missing_ok=True)
    return held


class Held:
    """A claim that this process holds, or that a process which it has started is to hold.

    Args:
      file: of the claim.
    """

    def __init__(self, file: Path):
        self.file = file
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {
            "machine": machine(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }

    @property
    def is_lost(self) -> bool:
        """Whether another worker has taken the run over."""
        newest = last(self.file.parent)
        return newest is None or newest.number > int(self.file.name)

    def tell(self, **said: Any) -> None:
        """Writes what has become known, unless another worker has taken the run over."""
        with self._lock:
            self._said |= said
            if not self.is_lost:
                text = strict_json.dumps(self._said | {"beat": uuid.uuid4().hex})
                write_whole(self.file, text + "\n")

    def beat(self) -> None:
        """Shows that the holder is alive, unless the process that it has started does."""
        claim = last(self.file.parent)
        if claim is None or claim.said.get("pid", os.getpid()) == os.getpid():
            self.tell()


@contextlib.contextmanager
def beating(held: Held, lost: Callable[[], Any]) -> Iterator[None]:
    """Beats in the background.

    Args:
      held: the claim.
      lost: what to do once another worker has taken the run over.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with contextlib.suppress(OSError):  # the folder may be out of reach for a while
                if held.is_lost:
                    lost()
                    return
                held.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def keeping(file: Path, lost: Callable[[], Any]) -> Iterator[Callable[[int, float], None]]:
    """Keeps the claim on a run alive while this process trains it.

    Args:
      file: of the claim, which the worker that started this process has made.
      lost: what to do once another worker has taken the run over.

    Yields:
      What to call with steps done and a loss.

    Raises:
      InputError: there is no such claim.
    """
    if not file.is_file():
        raise InputError(f"there is no claim {file}: only a sweep makes them")
    held, first = Held(file), []

    def on_step(step: int, loss: float) -> None:
        now = time.monotonic()
        first[:] = first or [(step, now)]
        (begun, at) = first[0]
        rate = (step - begun) / (now - at) if step > begun else 0.0
        # Not written at each of them; `beat` does.
        held._said |= {"step": step, "loss": loss, "steps_per_second": rate}

    held.tell(state=RUNNING)
    with beating(held, lost):
        yield on_step


class Watch:
    """Sees which claims are alive: those that have changed since they were first looked at."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[Claim, float, bool]] = {}

    def look(self, folder: Path, claim: Claim) -> None:
        """Looks at the last claim on a run."""
        now = time.monotonic()
        before, _, _ = self._seen.get(folder, (None, now, False))
        if before != claim:
            self._seen[folder] = claim, now, before is not None

    def is_alive(self, folder: Path) -> bool:
        """Whether a claim has changed since the first look, and not too long ago."""
        _, _, changed = self._seen.get(folder, (None, 0.0, False))
        return changed and not self.is_dead(folder)

    def is_dead(self, folder: Path) -> bool:
        """Whether a claim has not changed for so long that it is taken over."""
        _, at, _ = self._seen.get(folder, (None, time.monotonic(), False))
        return time.monotonic() - at >= DEAD
