"""A live view of a sweep: a line for each run that is running, and one for the sweep."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from attn_jax.errors import InputError
from attn_jax.files import is_terminal
from attn_jax.runs import plans
from attn_jax.runs.measuring import told
from attn_jax.runs.standing import (
    FAILED,
    RUNNING,
    WAITING,
    Standing,
    are_over,
    count,
    standings,
    summary,
    with_costs,
)

LOOK_EVERY = 2.0  # seconds between looks at the files of a sweep
SAY_EVERY = 60.0  # seconds between lines on the whole sweep, where there is no terminal


class Board:
    """What is known of a sweep, looked up anew now and then.

    Args:
      root: the folder of the sweep.
    """

    def __init__(self, root: Path):
        self._root = root
        self._at, self._runs = float("-inf"), []
        self._places = 1  # the most runs that were at work at a time; between two, one is missing

    def runs(self) -> Sequence[Standing]:
        """How far each run is."""
        with contextlib.suppress(InputError, OSError):  # then, what was known stays
            self._runs = standings(self._root, plans.read(self._root))
            self._places = max(self._places, count(self._runs, RUNNING))
        return self._runs

    def summary(self) -> str:
        """One line on the sweep."""
        return summary(self.runs(), self._places)

    def drawn(self) -> RenderableType:
        """The view, from what was known `LOOK_EVERY` seconds ago or less."""
        if time.monotonic() - self._at >= LOOK_EVERY:
            self.runs()
            self._at = time.monotonic()
        lines = Table.grid(padding=(0, 2))
        for run in with_costs(self._runs):
            if run.state == RUNNING:
                left = run.cost.of(run.left)
                lines.add_row(
                    run.label,
                    ProgressBar(run.steps, run.step, width=20),
                    f"{run.step}/{run.steps}",
                    f"{told(left)} left" if left > 0 else "",  # NaN if not known
                    run.said,
                )
        failures = [Text(run.why, "red") for run in self._runs if run.state == FAILED]
        return Group(lines, *failures, Text(summary(self._runs, self._places), "bold"))


@contextlib.contextmanager
def shown(board: Board) -> Iterator[Callable[[str], None]]:
    """Shows the live view while the body runs, if there is a terminal.

    Yields:
      What prints a line, above the view if there is one.
    """
    shown = is_terminal(sys.stdout)
    console = Console(highlight=False, markup=False, soft_wrap=True, force_terminal=shown)
    if not console.is_terminal:
        yield tell
        return
    with Live(get_renderable=board.drawn, console=console, refresh_per_second=2):
        yield console.print


def tell(line: str) -> None:
    """Prints a line and its newline at once, so that other threads cannot print between them."""
    print(f"{line}\n", end="", flush=True)


def watch(root: Path) -> None:
    """Shows a sweep that runs elsewhere, until no run of it is left to be made.

    Raises:
      InputError: there is no plan of a sweep in the folder.
    """
    if not plans.read(root).runs:
        raise InputError(f"{root} holds no plan of a sweep")
    board = Board(root)
    with shown(board) as say:
        follow(board, say, are_over)
    tell(board.summary())


def follow(
    board: Board, say: Callable[[str], None], are_over: Callable[[Sequence[Standing]], bool]
) -> None:
    """Says what changes in a sweep that runs elsewhere.

    Args:
      board: what is known of it.
      say: shows a line.
      are_over: whether its runs are over, so that there is nothing more to wait for.
    """
    before: dict[str, str] = {}
    said = float("-inf")
    while True:
        runs = board.runs()
        for line in changes(before, runs):
            say(line)
        before = {run.label: run.state for run in runs}
        if runs and are_over(runs):  # none where the files could not be read yet
            return
        if say is tell and time.monotonic() - said >= SAY_EVERY:
            say(board.summary())
            said = time.monotonic()
        time.sleep(LOOK_EVERY)


def changes(before: dict[str, str], runs: Iterable[Standing]) -> Iterator[str]:
    """A line for each run whose state has changed; at first, for those that have begun.

    Args:
      before: the state of each run at the last look; empty at first.
      runs: how far they are.
    """
    for run in runs:
        if run.state == before.get(run.label, WAITING):
            continue
        how = {RUNNING: f"at step {run.step} of {run.steps}", FAILED: run.why}.get(run.state)
        yield ": ".join(filter(None, [f"{run.state} {run.label}", how or run.said]))
