"""Engines that make the runs of a sweep: schedulers that others have written.

An engine only starts processes; these claim runs of the plan like any other worker.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from attn_jax.errors import InputError


class Jobs(Protocol):
    """Processes that an engine has been told to start, each for one run.

    Attributes:
      told: what the user should know of them.
    """

    told: str

    def are_over(self) -> bool:
        """Whether all of them have ended; called again and again."""
        ...

    def why(self, number: int) -> str:
        """Why the process for a run has not made it; empty if it has, or that is not known."""
        ...

    def leave(self, interrupted: bool) -> None:
        """Lets go of them: they are over, or the user has interrupted the program."""
        ...


class Engine(Protocol):
    """What starts processes where it has room."""

    def check(self) -> None:
        """Raises InputError if the engine cannot be used here."""
        ...

    def start(self, root: Path, numbers: Sequence[int], at_once: int) -> Jobs:
        """Has a process started for each run.

        Args:
          root: the folder of the sweep, where its plan is.
          numbers: of the runs in the plan.
          at_once: most processes at a time; 0: as many as there is room for.

        Raises:
          InputError: the engine refuses.
        """
        ...


def needed(library: str, extra: str) -> ModuleType:
    """A library that an engine needs, imported.

    Raises:
      InputError: it is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise InputError(
            f"executor={extra} needs {library}, which an extra installs: "
            f"pip install 'attn-jax[{extra}]' ({error})"
        ) from error
