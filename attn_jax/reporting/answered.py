"""The answer of a comparison, printed, shown by notebooks and kept as a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attn_jax.errors import InputError
from attn_jax.files import write_whole
from attn_jax.reporting.answer import ABOUT, answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.report import Report
from attn_jax.reporting.tables import escaped


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
    sentences, doubts = answer(comparison.systems), [ABOUT, *cautions(comparison.systems)]
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
