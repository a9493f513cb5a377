"""The page of a comparison: what it holds, and how it is written."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attn_jax.errors import InputError
from attn_jax.files import write_whole
from attn_jax.records import run_files
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.page import comparisons
from attn_jax.reporting.page.budget import Limits, Room
from attn_jax.reporting.page.curves import charts
from attn_jax.reporting.page.document import document
from attn_jax.reporting.page.sentences import split
from attn_jax.reporting.runs import of_split
from attn_jax.reporting.systems import Systems, first_run

SPLITS = "test", "validation", "train"
RELOADED = 10.0  # seconds after which a page of runs in training loads itself anew
TITLE = "Comparison of attention mechanisms"


def write_page(
    compared: Sequence[Comparison], folder: Path, baseline: str, limits: Limits, live: str = ""
) -> Path:
    """Writes `report.html` into a folder and returns its path.

    Args:
      compared: at least one, each of which is a data set of the page.
      folder: where to write.
      baseline: the system that others are compared with at first; if empty, the best.
      limits: how much is in the page.
      live: what is said of runs that are being trained; if empty, the page does not reload itself.
    """
    room = Room(limits)
    sets = [of_comparison(comparison, baseline, limits, room) for comparison in compared]
    notes = list(about_page(limits, room))
    data: dict[str, Any] = {"title": TITLE, "sets": sets, "notes": notes}
    if live:
        data["live"] = {"told": live, "seconds": RELOADED}
    path = folder / "report.html"
    write_whole(path, document(f"{TITLE}: {folder.absolute().name}", data))
    return path


def of_comparison(
    comparison: Comparison, baseline: str, limits: Limits, room: Room
) -> dict[str, Any]:
    """What the page shows of one data set."""
    best = next(iter(comparison.systems))
    chosen = baseline if baseline in comparison.systems else best
    return {
        "name": comparison.name,
        "comparison": comparisons.described(comparison, chosen),
        "charts": list(charts(comparison)),
        "splits": [
            split(name, systems, chosen, limits, room)
            for name, systems in splits(comparison.systems)
        ],
    }


def splits(systems: Systems) -> Iterator[tuple[str, Systems]]:
    """The splits on which systems were evaluated, with the first run of each system on it.

    Systems whose sentences of another split than the test are not those of the first one are left
    out of it, as are those whose files of it are damaged.
    """
    yield "test", systems
    for name in SPLITS[1:]:
        evaluated: Systems = {}
        for label, (run, *_) in systems.items():
            if not run_files.evaluation(run.folder, name).is_file():
                continue
            try:
                evaluated[label] = [of_split(run, name)]
            except (InputError, OSError):
                continue
        if evaluated:
            wanted = references(first_run(evaluated).sentences)
            yield (
                name,
                {
                    label: runs
                    for label, runs in evaluated.items()
                    if references(runs[0].sentences) == wanted
                },
            )


def references(sentences: Iterable[dict[str, Any]]) -> list[str]:
    """The references of some sentences."""
    return [sentence["reference"] for sentence in sentences]


def about_page(limits: Limits, room: Room) -> Iterator[str]:
    """What is in the page and what is not, in words."""
    yield (
        f"In this file: of each split, up to {limits.sentences} sentences on which the systems "
        "differ most, among those whose weights each evaluation keeps, as the first run of each "
        "system translated them (greedily, or as its decoding says); the mean over layers and "
        f"heads for all systems, and every layer and head for the best {limits.systems} and the "
        "baseline. Weights are those of what each system wrote, and of the reference where the "
        "evaluation has kept them."
    )
    if room.left_out:
        yield (
            f"{room.left_out} arrays of weights were left out, since the page would have held more "
            f"than {limits.megabytes:g} MB of them: --page_megabytes, --page_sentences and "
            "--page_systems choose."
        )
