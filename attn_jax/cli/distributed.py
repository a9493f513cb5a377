"""Training in several processes: its flags, and the process that waits beside each of them."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

from absl import flags as absl_flags

from attn_jax.cli.flags import FLAGS, value_of
from attn_jax.cli.program import dashed, is_lack_of_memory
from attn_jax.errors import TRY_AGAIN, InputError, Paused
from attn_jax.settings.fields import Duration
from attn_jax.training.notice import SAME
from attn_jax.training.processes import DEAD, connect, not_met

OTHERS = (
    "error: another process of the run has ended, or cannot be reached: the same command in all of "
    "them goes on from the last checkpoint"
)


def define() -> None:
    """Defines the flags that make a program one of several processes."""
    absl_flags.DEFINE_bool(
        "distributed", False, "train in several processes, of which the cluster tells JAX"
    )
    absl_flags.DEFINE_string(
        "distributed.coordinator",
        None,
        "host:port of process 0, at which the others meet it, where no cluster tells",
    )
    absl_flags.DEFINE_integer("distributed.processes", None, "how many processes there are")
    absl_flags.DEFINE_integer("distributed.process", None, "the number of this one, from 0 on")
    absl_flags.DEFINE_string(
        "distributed.wait", "5min", "time in which all processes have to come: 90s, 1h"
    )


def _told() -> tuple[str | None, int | None, int | None]:
    """The coordinator, the number of processes and that of this one, as far as flags tell."""
    of = "distributed."
    return value_of(f"{of}coordinator"), value_of(f"{of}processes"), value_of(f"{of}process")


def _wait() -> float:
    """The time that others have to come, in seconds."""
    try:
        seconds = Duration(value_of("distributed.wait"))
    except ValueError:
        seconds = Duration(0)
    if not 1 <= seconds < float("inf"):
        raise InputError(
            f"--distributed.wait must be {Duration.described}, of at least 1s, got "
            f"{value_of('distributed.wait')!r}"
        )
    return seconds


@contextlib.contextmanager
def connected() -> Iterator[None]:
    """Makes this process one of several, if the flags ask for it.

    JAX is used in a child of this process, since it ends from C++ when another one has died; the
    parent then says so.
    """
    if not FLAGS.distributed and _told() == (None, None, None):
        if FLAGS["distributed.wait"].present:
            raise InputError("--distributed.wait is for several processes: give --distributed")
        yield
        return
    wait = _wait()
    met = _in_child(wait)
    with _unheard():
        connect(*_told(), wait)
    os.write(met, b"met")
    try:
        yield
    except (InputError, Paused):
        raise  # as all others, for which JAX waits
    except BaseException as error:
        if isinstance(error, Exception) and _status(error) == 1:
            # Perhaps as another has died, which JAX raises as exceptions of many kinds. It notices
            # that within this time, and ends this process.
            time.sleep(DEAD + 10)
        atexit.register(_leave, error)
        raise


def _leave(error: BaseException) -> None:
    """Ends without waiting for the others, which do not know of the error."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_status(error))


def _status(error: BaseException) -> int:
    """The exit status of a process that an error ends."""
    if isinstance(error, KeyboardInterrupt):
        return TRY_AGAIN
    return 2 if isinstance(error, OSError) or is_lack_of_memory(error) else 1


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Leaves out what JAX writes from C++ before it ends the process: the parent says it."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _in_child(wait: float) -> int:
    """Returns in a child of this process; the parent waits for it, and ends as it does.

    Args:
      wait: the time that the other processes have to come, in seconds.

    Returns:
      A pipe to write to once they have come.
    """
    sys.stdout.flush()  # else both would write what is left in the buffer
    from_parent, to_child = os.pipe()
    from_child, to_parent = os.pipe()
    child = os.fork()  # JAX has not started, so has no threads
    if child:
        os.close(from_parent)
        os.close(to_parent)
        _end_as(child, from_child, wait)
    os.close(to_child)
    os.close(from_child)
    # The parent hands on what it gets, as SIGTERM. A terminal sends an interrupt to both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=[from_parent], daemon=True).start()
    return to_parent


def _end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # until the parent has ended
    os._exit(TRY_AGAIN)


def _end_as(child: int, met: int, wait: float) -> NoReturn:
    """Waits for a child, and ends with its exit status; tells why, if a signal has ended it.

    Hands a signal on to it, and at a second one ends both at once.

    Args:
      child: its number.
      met: a pipe, into which it writes once the other processes have come.
      wait: the time that they have for it, in seconds.
    """
    first: list[float] = []

    def hand_on(number: int, _: object) -> None:
        now = time.monotonic()
        if not first:
            first.append(now)
            os.kill(child, signal.SIGTERM)
        elif now - first[0] >= SAME:
            os.kill(child, signal.SIGKILL)
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, hand_on)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGABRT and not os.read(met, 1):
        print(f"error: {dashed(not_met(wait))}", file=sys.stderr)
        code = 2
    elif code == -signal.SIGABRT:
        print(OTHERS, file=sys.stderr)
        code = TRY_AGAIN
    elif code < 0:
        print(f"error: ended by {signal.Signals(-code).name}", file=sys.stderr)
        code = 128 - code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
