"""How every program starts, and how it ends when its input cannot be used."""

import io
import math
import os
import re
import signal
import sys
import threading
import time
import warnings
from types import ModuleType
from typing import NamedTuple

import jax
from absl import flags

from attn_jax import config
from attn_jax.cli.flags import HELP, parse
from attn_jax.errors import INTERRUPTED, TRY_AGAIN, InputError, Paused, Terminated, reason
from attn_jax.startup import start
from attn_jax.training.notice import SAME, end_at_once_by


class Interrupts:
    """Raises an exception at a signal; at several within `SAME` seconds, only one."""

    def __init__(self) -> None:
        self._at = -math.inf  # when a signal came
        self.told = False  # whether the program says that it was interrupted, and ends

    def hear(self, number: int, _: object) -> None:
        """Handles a signal."""
        if time.monotonic() - self._at < SAME:
            return
        self._at = time.monotonic()
        if self.told:
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def not_lost(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Sends a signal again if its exception was lost in code that can raise none.

        JAX's callback of the garbage collector is such code.
        """
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        number = signal.SIGTERM if unraisable.exc_type is Terminated else signal.SIGINT

        def again() -> None:
            self._at = -math.inf  # no earlier: another signal would be lost here, and this one too
            os.kill(os.getpid(), number)  # not `raise_signal`, which would not wake the main thread

        threading.Timer(0.05, again).start()


class Advice(NamedTuple):
    """Advice for the user of a program that ended early; added to its message."""

    interrupted: str = ""
    status: int = INTERRUPTED  # after an interrupt
    memory: str = ""  # if there was not enough


NONE = Advice()
OF_TRAINING = Advice(
    "; the same command goes on from the last checkpoint, if there is one",
    TRY_AGAIN,
    "; training needs less with a smaller --train.batch_size, or with --train.microbatches",
)


# What the library calls by the names of its arguments, and programs by those of their flags.
OPTION = re.compile(r"(?<![\w.,/:-])\w+(?:\.\w+)+")


def dashed(message: object) -> str:
    """A message of the library with dashes before the names of options."""
    of_programs = {"train.fallback", "trials", "seeds"}
    known = {*config.known(), *of_programs, *(n for n in flags.FLAGS if "distributed." in n)}

    def with_dashes(found: re.Match[str]) -> str:
        name = found[0].removeprefix("grid.").removeprefix("search.")
        return f"--{found[0]}" if name in known else found[0]

    return OPTION.sub(with_dashes, str(message))


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Shows a warning as a user can read it, without the line of code that it comes from."""
    print(f"warning: {dashed(message)}", file=sys.stderr)


def run(program: ModuleType) -> None:
    """Runs a program; reports input that cannot be used in one sentence, with status 2.

    Args:
      program: a module with `define`, which defines its flags, `main`, and perhaps `ADVICE`.
    """
    advice: Advice = getattr(program, "ADVICE", NONE)
    sys.argv[0] = f"attn_jax {program.__name__.rpartition('.')[2]}"
    warnings.showwarning = _warn
    # Where the user's own modules may be. Last, and after all of the programs' own imports, since
    # Python takes any module for one of packages in several places, such as Orbax.
    sys.path.append("")
    # UTF-8 whatever the locale, as in files; a stream is None if it was closed.
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    program.define()
    interrupts = Interrupts()
    signal.signal(signal.SIGTERM, interrupts.hear)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as a shell has it in the background
        signal.signal(signal.SIGINT, interrupts.hear)
    sys.unraisablehook = interrupts.not_lost
    end_at_once_by(os._exit)
    try:
        if {*HELP} & {*sys.argv[1:]}:
            told = flags.FLAGS.module_help(program).replace(f"{program.__name__}:", "Flags:", 1)
            print(f"{program.__doc__}{told}")
            return
        parse(sys.argv)
        start()
        program.main()
    except InputError as error:
        print(f"error: {dashed(error)}", file=sys.stderr)
        sys.exit(2)
    except Paused as paused:
        interrupts.told = True
        print(f"{paused}; the same command goes on from there", file=sys.stderr)
        sys.exit(advice.status)
    except KeyboardInterrupt:
        interrupts.told = True
        print(f"interrupted{advice.interrupted}", file=sys.stderr)
        sys.exit(advice.status)
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed the pipe: drop the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        said = str(error).partition("\n")[0].removeprefix("RESOURCE_EXHAUSTED: ")
        why = f" ({said})" if said else ""
        print(f"error: there is not enough memory{why}{advice.memory}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = "" if error.filename is None else f": {error.filename}"
        print(f"error: {error.strerror or error}{where}", file=sys.stderr)
        sys.exit(2)
    except Exception:
        why = why_jax_does_not_start()
        if why is None:
            raise
        print(f"error: {why}", file=sys.stderr)
        sys.exit(2)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether the computer or a device has not enough memory."""
    of_device = isinstance(error, jax.errors.JaxRuntimeError)
    return isinstance(error, MemoryError) or (of_device and "RESOURCE_EXHAUSTED" in str(error))


def why_jax_does_not_start() -> str | None:
    """What keeps JAX from using a device; None if it has one."""
    try:
        jax.devices()
    except Exception as error:  # also a bare AssertionError
        asked = os.environ.get("JAX_PLATFORMS")
        how = f" with JAX_PLATFORMS={asked}" if asked else ""
        return f"JAX does not start{how}: {reason(error)}"
    return None
