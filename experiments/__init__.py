"""Programs: train, evaluate, translate, align, export, sweep, report, check, catalogue, bench."""

import os
import site
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def order(places: list[str], root: str, installed: list[str]) -> list[str]:
    """Where Python looks for modules: for its own, installed ones, this project.

    Not in the current folder, since a `random.py` or `numpy.py` of the user's would be run in place
    of what all import: `program.run` adds it when a program has been imported.

    Args:
      places: where it looks by itself, less the current folder.
      root: the folder of this project, which comes after installed modules, but before others that
        are installed as a link to their folder, such as another checkout of this project.
      installed: folders of installed modules.
    """
    others = [place for place in places if place not in ("", root)]
    ends = [number for number, place in enumerate(others, start=1) if place in installed]
    end = max(ends, default=len(others))
    return [*others[:end], root, *others[end:]]


# Before `signal` is imported, which is one of Python's own.
with_current_folder = sys.argv[0] == "-m" and not sys.flags.safe_path
sys.path[:] = order(
    sys.path[1:] if with_current_folder else sys.path,
    ROOT,
    [*site.getsitepackages(), site.getusersitepackages()],
)

import logging  # noqa: E402
import signal  # noqa: E402

# While `python -m` imports a program, which takes seconds, an interrupt ends it without a
# traceback; afterwards, `program.run` handles interrupts. A shell may have told it to ignore them.
if sys.argv[0] == "-m" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

# Where no folder can be written to, Matplotlib warns that it will look for fonts in every process.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
