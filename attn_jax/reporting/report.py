"""The report on the runs under a folder, and the answer that it gives."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from attn_jax.drawing.document import Limits
from attn_jax.errors import InputError, choose
from attn_jax.files import path_of, write_whole
from attn_jax.pairs import Given, PathLike
from attn_jax.reporting import tables
from attn_jax.reporting.about import searches, unfinished
from attn_jax.reporting.answer import ABOUT, answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.comparisons import Comparison, all_pairs, all_runs, compare, write_csv
from attn_jax.reporting.paper import FORMATS, write_paper
from attn_jax.reporting.printing import escaped, print_table
from attn_jax.reporting.report_html import write_page
from attn_jax.reporting.report_md import write_report
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.telling import asked_for
from attn_jax.reporting.toolkits import read_toolkits

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

    @property
    def frame(self) -> pd.DataFrame:
        """A row for each run, by its folder: its system, seed, rank, metrics, cost and settings."""
        return all_runs(self.comparisons, self.root)

    @property
    def differences(self) -> pd.DataFrame:
        """A row for each metric and pair of systems: how they differ, and how certain that is."""
        return all_pairs(self.comparisons)

    def __repr__(self) -> str:
        names = [comparison.name for comparison in self.comparisons]
        return f"Report({str(self.root)!r}: {', '.join(names)})"

    def _repr_markdown_(self) -> str:
        parts: list[str] = []
        for comparison in self.comparisons:
            parts += [f"**{escaped(comparison.name)}**", *map(escaped, remarks(comparison))]
            parts += tables.as_markdown(comparison)
        parts += [escaped(f"left out, {why}: {folder}") for folder, why in self.left_out.items()]
        return "\n\n".join(parts)


def remarks(comparison: Comparison) -> list[str]:
    """What a reader needs to know before the tables."""
    systems = comparison.systems
    return [*filter(None, [comparison.apart]), searches(systems), *unfinished(systems)]


def report(
    folder: str | Path,
    baseline: str = "",
    *,
    formats: Collection[str] = (),
    sentence: int | str = "",
    page_sentences: int = Limits.sentences,
    page_systems: int = Limits.systems,
    page_megabytes: float = Limits.megabytes,
    live: str = "",
    weights: Mapping[str, PathLike | Given] | None = None,
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
      sentence: the one in figures, of those whose weights are stored: its number, from 1, or a text
        that occurs in its source; by default the one on which systems differ most.
      page_sentences: most sentences of a split in `report.html`.
      page_systems: how many systems, best first, and the baseline, have all their layers and heads
        in `report.html`; others have the mean.
      page_megabytes: the most that weights take in `report.html`.
      live: how far runs are that are being trained, as `watch` says it; `report.html` then loads
        itself anew now and then.
      weights: what other toolkits wrote for the test sentences, in their order, by the names of
        these systems: pairs with their weights, as `attn_jax.page` takes them, or files of them.

    Raises:
      InputError: there is no such folder, it holds no evaluated run or no such baseline, there is
        no such format or sentence, a number is too low, or weights cannot be read or are not of
        the test sentences.
    """
    limits = Limits(page_sentences, page_systems, page_megabytes)
    for name in formats:
        choose(dict.fromkeys(FORMATS), name, "format")
    root = path_of(folder)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    toolkits = read_toolkits(weights or {})
    runs, left_out = find_runs(root)
    if not runs:
        reasons = [f"; {folder}: {why}" for folder, why in left_out.items()]
        more = f"; and {len(reasons) - MOST_TOLD} more" if len(reasons) > MOST_TOLD else ""
        raise InputError(
            f"{root} holds no run that was evaluated on a test split: training does that at its "
            f"end if the data have one, `evaluate` at any time{''.join(reasons[:MOST_TOLD])}{more}"
        )
    comparisons = list(compare(runs, toolkits))
    known = {label: None for comparison in comparisons for label in comparison.systems}
    if baseline:
        choose(known, baseline, "system for baseline")
    _check_sentence(comparisons, str(sentence))
    if not os.access(root, os.W_OK):
        return Report(root, comparisons, left_out, None, None, None)
    page, data = write_report(comparisons, root, str(sentence)), root / "runs.csv"
    write_csv(all_runs(comparisons, root), data)
    html = write_page(comparisons, root, baseline, limits, live)
    paper = write_paper(comparisons, root / "paper", formats, baseline, str(sentence))
    return Report(root, comparisons, left_out, page, data, html, paper)


def _check_sentence(comparisons: Sequence[Comparison], sentence: str) -> None:
    """Raises an `InputError` if no data set has the sentence that is asked for."""
    known = [comparison.systems for comparison in comparisons]
    if sentence and not any(asked_for(systems, sentence) for systems in known):
        raise InputError(
            f"no sentence {sentence!r} for the figures: give the number of a test sentence "
            "whose weights all systems have stored, such as 1, or a text that occurs in its source"
        )


def print_report(report: Report) -> None:
    """Prints a report.

    Raises:
      InputError: it could not be written.
    """
    for comparison in report.comparisons:
        print("\n".join(remarks(comparison)))
        for title, table, notes in tables.all_tables(comparison):
            print_table(f"{comparison.name}: {title.lower()}", table)
            for note in notes:
                print(note)
    for folder, why in report.left_out.items():
        print(f"left out, {why}: {folder}")
    if report.page is None:
        raise InputError(f"cannot write into {report.root}: this is all of the report")
    print(f"each run: {report.data}")
    print(f"report: {report.page}")
    print(f"page, for a browser: {report.html}")
    if report.paper:
        print(f"for a paper: {report.paper[0].parent} ({len(report.paper)} files)")


class Answer(NamedTuple):
    """Which attention mechanism is best for some data, and the report that says so.

    Attributes:
      sentences: the answer.
      doubts: what makes it uncertain.
      chosen: the setting of each system, by the name of its first run.
      page: both as Markdown, with what was compared.
      report: the report.
    """

    sentences: Sequence[str]
    doubts: Sequence[str]
    chosen: Sequence[str]
    page: Path
    report: Report

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_markdown_(self) -> str:
        return self.page.read_text("utf-8") + "\n" + self.report._repr_markdown_()


def write_answer(
    report: Report, page: Path, planned: Sequence[str], chosen: Sequence[str]
) -> Answer:
    """Writes the answer that a report gives.

    Args:
      report: on one data set.
      page: where to write.
      planned: what was to be compared, in words.
      chosen: the setting of each system, by the name of its first run.

    Raises:
      InputError: the report is on several data sets.
    """
    if len(report.comparisons) > 1:
        raise InputError(
            f"{report.root} holds runs on other test data, which are not of this comparison: move "
            "them to another folder, and give the same command again"
        )
    (comparison,) = report.comparisons
    sentences, doubts = answer(comparison), [ABOUT, *cautions(comparison.systems)]
    parts = [
        "# Which attention mechanism is best for these data?",
        *map(escaped, sentences),
        "[report.html](report.html) shows all figures, and what each system attends to.",
        "## How sure this is",
        _items(doubts),
        "## What was compared",
        _items(planned),
        "The settings that were the best on validation:",
        _items(chosen),
    ]
    write_whole(page, "\n\n".join(parts) + "\n")
    return Answer(sentences, doubts, chosen, page, report)


def _items(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line.strip())}" for line in lines)
