"""How far training has come, in a terminal or in a notebook."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextlib.contextmanager
def progress_bar(
    console: Console, first: int, steps: int
) -> Iterator[Callable[[int, float], None]]:
    """Shows a progress bar, unless output goes to a file.

    Args:
      console: where it is shown.
      first: steps done.
      steps: steps in all.

    Yields:
      A function that sets the number of steps done and the loss.
    """
    bar = Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]}"),
        console=console,
        disable=not console.is_terminal,  # as in a notebook, where rich needs ipywidgets
    )
    task = bar.add_task("training", total=steps, completed=first, loss="…")
    redraw = _redrawing(bar) if console.is_jupyter else lambda: None

    def advance(step: int, loss: float) -> None:
        bar.update(task, completed=step, loss=f"{loss:.3f}")
        redraw()

    with bar:
        yield advance


def _redrawing(bar: Progress) -> Callable[[], None]:
    """Shows a bar in a notebook; returns a function that draws it anew in its place."""
    from IPython.display import DisplayHandle

    shown = DisplayHandle()
    shown.display(bar)
    return lambda: shown.update(bar)
