"""`report.html`: one page with tables, curves and a viewer of alignments, without a network."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.drawing.document import Limits, Room, document
from attn_jax.errors import InputError
from attn_jax.evaluation.metrics import METRICS
from attn_jax.files import write_whole
from attn_jax.records import run_files
from attn_jax.reporting import differences, forest, tables
from attn_jax.reporting.about import about
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.curves import Line, learning, lengths, positions
from attn_jax.reporting.mistakes import mistakes
from attn_jax.reporting.runs import of_split
from attn_jax.reporting.sentences import split
from attn_jax.reporting.systems import TITLES, Systems, first_run

SPLITS = "test", "validation", "train"
RELOADED = 10.0  # seconds after which a page of runs in training loads itself anew
TITLE = "Comparison of attention mechanisms"
DIGITS = 5  # significant ones, which is more than a screen shows


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
    evaluated = list(splits(comparison.systems))
    return {
        "name": comparison.name,
        "comparison": described(comparison, chosen),
        "charts": list(charts(comparison)),
        "splits": [split(name, systems, chosen, limits, room) for name, systems in evaluated],
        "errors": [mistakes(name, systems) for name, systems in evaluated],
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
        f"In this file: of each split, the weights of up to {limits.sentences} sentences, on which "
        "the systems differ most or which are wrong, among those whose weights each evaluation "
        "keeps, as the first run of each system translated them (greedily, or as its decoding "
        "says); the mean over layers and "
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


def described(comparison: Comparison, baseline: str) -> dict[str, Any]:
    """What the page tells of the systems of a comparison.

    Args:
      comparison: the comparison.
      baseline: the system from which differences are shown at first.
    """
    systems = comparison.systems
    return {
        "systems": list(systems),
        "baseline": list(systems).index(baseline),
        "differences": list(matrices(comparison)) if len(systems) > 1 else None,
        "forest": told_scores(comparison) if len(systems) > 1 else None,
        "answer": answer(comparison),
        "tables": list(told_tables(comparison)),
        "cautions": list(cautions(systems)),
        "about": [*filter(None, [comparison.apart]), *about(systems, comparison.profile)],
    }


def matrices(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The differences of all systems by each metric: of each baseline, of each system."""
    labels = list(comparison.systems)
    for metric, found in differences.from_each(comparison.differences).groupby(
        "metric", sort=False
    ):
        name = str(metric)
        told: dict[str, Any] = {"metric": TITLES[name]}
        told["better"] = "higher" if METRICS[name] else "lower"
        for name in ("difference", "low", "high", "p", "holm"):
            matrix = found.pivot(index="baseline", columns="system", values=name)
            digits = 7 if name in ("p", "holm") else 2
            told[name] = matrix.reindex(labels, columns=labels).round(digits).to_numpy().tolist()
        yield told


def told_scores(comparison: Comparison) -> dict[str, Any]:
    """The final scores as `forest.js` reads them."""
    told = forest.scores(comparison)
    rows = [score._asdict() | {"name": label, "text": score.text} for label, score in told.items()]
    title = f"Test {forest.MEASURES[comparison.measure]}"
    about_them = {"title": title, "about": forest.about(told), "rows": rows}
    return about_them | forest.scale(told)._asdict()


def told_tables(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The tables of the page as `tables.js` reads them; it shows the p-values of any baseline."""
    for title, table, notes in tables.all_tables(comparison):
        if title == "Quality" and len(comparison.systems) > 1:
            table = table.drop(columns=tables.P, errors="ignore")
            notes = [differences.ABOUT, *(note for note in notes if note != tables.ABOUT_P)]
        rows = table.to_numpy().tolist()
        yield {"title": title, "heading": list(table.columns), "rows": rows, "notes": list(notes)}


def charts(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """All charts of a comparison, as `curves.js` reads them."""
    systems = comparison.systems
    for chart in chain(learning(systems), lengths(comparison.profile), positions(systems)):
        ticks = {"ticks": chart.ticks} if chart.ticks else {}
        told = {
            "y": chart.told,
            "xs": [{"name": name} | ticks for name in chart.xs],
            "lines": {label: banded(line) for label, line in chart.lines.items()},
        }
        yield told | ({"log": True} if chart.y.endswith("perplexity") else {})


def banded(line: Line) -> dict[str, list]:
    """The places of a line, and the mean, lowest and highest value over seeds at each of them."""
    values = line.values
    band = {"mean": values.mean(axis=0), "low": values.min(axis=0), "high": values.max(axis=0)}
    return {"x": list(map(_rounded, line.xs))} | {name: _rounded(v) for name, v in band.items()}


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
