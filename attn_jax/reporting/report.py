"""The report on the runs under a folder."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from attn_jax.errors import InputError, choose
from attn_jax.files import path_of
from attn_jax.reporting import tables
from attn_jax.reporting.about import searches, unfinished
from attn_jax.reporting.page.budget import Limits
from attn_jax.reporting.page.page import write_page
from attn_jax.reporting.pages import Comparison, compare, tuned, write_report
from attn_jax.reporting.paper import FORMATS, write_paper
from attn_jax.reporting.ranking import about_ranks
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.runs_csv import write_runs

MOST_TOLD = 3  # runs that an error names


class Report(NamedTuple):
    """Comparisons of the runs under a folder; a notebook shows their tables."""

    root: Path
    comparisons: list[Comparison]
    left_out: dict[Path, str]  # folders, and why
    page: Path | None  # in Markdown; None if the folder cannot be written to
    data: Path | None  # every run, as CSV
    html: Path | None  # to look into in a browser
    paper: Sequence[Path] = ()  # tables, figures and pairs of systems, if asked for

    def __repr__(self) -> str:
        names = [comparison.name for comparison in self.comparisons]
        return f"Report({str(self.root)!r}: {', '.join(names)})"

    def _repr_markdown_(self) -> str:
        parts: list[str] = []
        for comparison in self.comparisons:
            parts += [
                f"**{tables.escaped(comparison.name)}**",
                comparison.quality.markdown(),
                *map(tables.escaped, about_quality(comparison)),
                comparison.cost.markdown(),
                tables.about_cost(comparison.cost),
                *tuned(comparison.tuning),
            ]
        parts += [
            tables.escaped(f"left out, {why}: {folder}") for folder, why in self.left_out.items()
        ]
        return "\n\n".join(parts)


def about_quality(comparison: Comparison) -> list[str]:
    """What a reader needs to know of the table of quality."""
    systems, quality = comparison.systems, comparison.quality
    notes = [comparison.apart, *tables.about_quality(quality), searches(systems)]
    notes += [*unfinished(systems), *about_ranks(systems)]
    return [note for note in notes if note]


def report(
    folder: str | Path,
    baseline: str = "",
    *,
    formats: Collection[str] = (),
    page_sentences: int = Limits.sentences,
    page_systems: int = Limits.systems,
    page_megabytes: float = Limits.megabytes,
    live: str = "",
) -> Report:
    """Compares all evaluated runs under a folder, whose metrics and weights it reads.

    Writes `report.html`, `report.md` with its figures, and `runs.csv`, into the folder, if that is
    possible.

    Args:
      folder: the folder.
      baseline: the system that others are compared with, at first in `report.html` and in tables
        for a paper; by default the best.
      formats: what to write for a paper, into the folder `paper` in it: `latex` for `report.tex`
        and `pairs.csv`, `pdf` and `svg` for figures.
      page_sentences: most sentences of a split in `report.html`.
      page_systems: how many systems, best first, and the baseline, have all their layers and heads
        in `report.html`; others have the mean.
      page_megabytes: the most that weights take in `report.html`.
      live: how far runs are that are being trained, as `watch` says it; `report.html` then loads
        itself anew now and then.

    Raises:
      InputError: there is no such folder, it holds no evaluated run or no such baseline, there is
        no such format, or a number is too low.
    """
    limits = Limits(page_sentences, page_systems, page_megabytes)
    for name in formats:
        choose(dict.fromkeys(FORMATS), name, "format")
    root = path_of(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    runs, left_out = find_runs(root)
    if not runs:
        reasons = [f"; {folder}: {why}" for folder, why in left_out.items()]
        more = f"; and {len(reasons) - MOST_TOLD} more" if len(reasons) > MOST_TOLD else ""
        raise InputError(
            f"{root} holds no run that was evaluated on a test split: training does that at its "
            f"end if the data have one, `evaluate` at any time{''.join(reasons[:MOST_TOLD])}{more}"
        )
    comparisons = list(compare(runs))
    known = {label: None for comparison in comparisons for label in comparison.systems}
    if baseline:
        choose(known, baseline, "system for baseline")
    if not os.access(root, os.W_OK):
        return Report(root, comparisons, left_out, None, None, None)
    page, data = write_report(comparisons, root), write_runs(comparisons, root)
    html = write_page(comparisons, root, baseline, limits, live)
    paper = write_paper(comparisons, root / "paper", formats, baseline)
    return Report(root, comparisons, left_out, page, data, html, paper)
