"""Tables in the terminal."""

import sys
from typing import IO

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attn_jax.errors import InputError
from attn_jax.files import is_terminal
from attn_jax.reporting import tables
from attn_jax.reporting.explanations import ABOUT, COLUMNS, TITLE, explanations
from attn_jax.reporting.report import Report, about_quality

BORDER = 3  # beside each column of a table


def print_table(title: str, table: tables.Table, file: IO[str] | None = None) -> None:
    """Prints a table to a file, by default to standard output.

    What is wider than the terminal is printed as several tables, since rich would cut figures off.
    """
    file = file or sys.stdout
    # A pipe has no width, and rich's default would split tables too early.
    shown = is_terminal(file)
    console = Console(file=file, markup=False, width=None if shown else 200, force_terminal=shown)
    columns = list(zip(table.heading, *table.rows, strict=True))
    widths = [max(map(cell_len, column)) + BORDER for column in columns]
    widths[0] = min(widths[0], max(console.width // 3, 12))  # names are folded
    groups: list[list[int]] = [[]]
    for nth in range(1, len(columns)):
        if groups[-1] and sum(widths[n] for n in [0, *groups[-1], nth]) >= console.width:
            groups.append([])
        groups[-1].append(nth)
    for group in groups:
        printed = Table(title=title)
        printed.add_column(table.heading[0], overflow="fold", width=widths[0] - BORDER)
        for nth in group:
            printed.add_column(table.heading[nth], justify="right", no_wrap=True)
        for row in table.rows:
            printed.add_row(row[0], *(row[nth] for nth in group))
        console.print(printed)


def print_evaluation(text: str, result: dict, models: str) -> None:
    """Prints the figures of a split or of a text as a table.

    Args:
      text: the name of the split or text, for the title.
      result: what `evaluation.measure` returns.
      models: what was evaluated.
    """
    table = Table(title=escape(text))
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name in ("sentences", "parameters"):
        table.add_row(name, f"{result[name]:,}")
    # Only sentences have a TER; of single words and symbols, BLEU says nothing.
    left_out = () if "ter" in result["metrics"] else ("bleu",)
    for name, value in result["metrics"].items():
        if name in left_out:
            continue
        shown = f"{value:+d}" if name == "alignment_shift" else f"{value:.2f}"
        table.add_row(name.replace("_", " "), shown)
    for name, value in result.get("explanations", {}).items():
        if name in COLUMNS:
            table.add_row(COLUMNS[name], f"{value:.3f}")
    console = Console(force_terminal=is_terminal(sys.stdout))
    console.print(table)
    console.print(f"model: {models}", markup=False, highlight=False, soft_wrap=True)
    options = [f"{name}={value}" for name, value in result["search"].items()]
    console.print(f"decoding: {', '.join(options) or 'greedy'}", highlight=False)
    for name, signature in result["signatures"].items():
        if name not in left_out:
            console.print(f"{name}: {signature}", highlight=False, soft_wrap=True)


def best_step(result: dict) -> str:
    """The model of an evaluation that a run has kept, in words."""
    return f"step {result['step']}, the best on validation"


def print_report(report: Report) -> None:
    """Prints a report.

    Raises:
      InputError: it could not be written.
    """
    for comparison in report.comparisons:
        name, profile = comparison.name, comparison.profile
        print_table(f"{name}: quality", comparison.quality)
        print("\n".join(about_quality(comparison)))
        print_table(f"{name}: cost", comparison.cost)
        print(tables.about_cost(comparison.cost))
        if comparison.tuning is not None:
            print_table(f"{name}: tuning", comparison.tuning.table)
            print("\n".join(comparison.tuning.notes))
        if profile.tells_more:
            print_table(f"{name}: length", tables.by_length(profile))
        if measured := explanations(comparison.systems):
            print_table(f"{name}: {TITLE.lower()}", measured)
            print("\n".join(ABOUT))
    for folder, why in report.left_out.items():
        print(f"left out, {why}: {folder}")
    if report.page is None:
        raise InputError(f"cannot write into {report.root}: this is all of the report")
    print(f"each run: {report.data}")
    print(f"report: {report.page}")
    print(f"page, for a browser: {report.html}")
    if report.paper:
        print(f"for a paper: {report.paper[0].parent} ({len(report.paper)} files)")
