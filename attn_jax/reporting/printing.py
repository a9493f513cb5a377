"""How figures and tables are written: as cells, as Markdown, in a terminal and in LaTeX."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from attn_jax.files import is_terminal
from attn_jax.tokens import BETWEEN, bracketed

if TYPE_CHECKING:  # takes half a second, which programs without tables save
    import pandas as pd

# Whether weights matter.
EXPLANATIONS = {
    "without_most": "loss without most attended",
    "without_random": "loss without another",
    "uniform": "loss with equal weights",
    "uniform_quality": "points lost with equal weights",
    "rank_agreement": "τ with gradient \N{MULTIPLICATION SIGN} input",
}
DASH = "–"  # noqa: RUF001
BORDER = 3  # beside each column of a table
SHADES = " ░▒▓█"  # of weights up to 0.1, 0.3, 0.5, 0.8 and 1
SIGNS = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    **{sign: f"${sign}$" for sign in "<>|"},
    "±": r"$\pm$",
    "–": "--",  # noqa: RUF001
    "…": r"\ldots{}",
    "\N{DAGGER}": r"$\dagger$",
}
WIDE = 5  # columns of a table above which it takes both columns of a page


def mean_and_deviation(values: "Sequence[float] | pd.Series", digits: int = 2) -> str:
    """`mean ± sd`, with the sample standard deviation; a single value without a deviation.

    A dash if there is no value, or one is NaN, which stands for none.
    """
    if not len(values) or np.isnan(values).any():
        return DASH
    if len(values) == 1 or np.isinf(values).any():  # an infinite mean has no deviation
        return f"{np.mean(values):.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def in_seconds(seconds: float) -> str:
    """A time in whole seconds; one of less than ten also in tenths."""
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def p_cell(p: float) -> str:
    """A p-value with three digits; a dash for NaN, which stands for none."""
    return "<0.001" if p < 0.0005 else mean_and_deviation([p], 3)


def is_figure(cell: str) -> bool:
    """Whether a cell holds numbers, a dash in place of one, or nothing; "2 May 1998" is text."""
    return not re.search(r"[^\W\d_]", re.sub(r"\b(to|inf)\b", "", cell))


def escaped(text: str) -> str:
    """A text as Markdown that shows all its signs; underscores within words do that anyway."""
    text = text.replace(BETWEEN, "\N{EM SPACE}")  # between two sources
    text = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", "\N{REPLACEMENT CHARACTER}", text)
    return re.sub(r"[\\`*<&|\[\]~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


def markdown(table: "pd.DataFrame", cell: Callable[[str], str] = escaped) -> str:
    """A table of texts as Markdown, with columns of numbers aligned to the right.

    Args:
      table: the table; its index is not shown.
      cell: makes Markdown of a cell; by default, it shows all signs as they are.
    """
    rule = ["---:" if all(map(is_figure, column)) else "---" for _, column in table.items()]
    lines = [list(map(cell, row)) for row in (table.columns, *table.to_numpy())]
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def print_table(title: str, table: "pd.DataFrame", file: IO[str] | None = None) -> None:
    """Prints a table of texts to a file, by default to standard output.

    What is wider than the terminal is printed as several tables, since rich would cut figures off.
    """
    file = file or sys.stdout
    # A pipe has no width, and rich's default would split tables too early.
    shown = is_terminal(file)
    console = Console(file=file, markup=False, width=None if shown else 200, force_terminal=shown)
    widths = [max(map(cell_len, (str(name), *column))) + BORDER for name, column in table.items()]
    widths[0] = min(widths[0], max(console.width // 3, 12))  # names are folded
    groups: list[list[int]] = [[]]
    for nth in range(1, len(widths)):
        if groups[-1] and sum(widths[n] for n in [0, *groups[-1], nth]) >= console.width:
            groups.append([])
        groups[-1].append(nth)
    for group in groups:
        printed = Table(title=title)
        printed.add_column(table.columns[0], overflow="fold", width=widths[0] - BORDER)
        for nth in group:
            printed.add_column(table.columns[nth], justify="right", no_wrap=True)
        for row in table.iloc[:, [0, *group]].to_numpy():
            printed.add_row(*row)
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
        if name in result:  # parameters of another toolkit are not known
            table.add_row(name, f"{result[name]:,}")
    # Only sentences have a TER; of single words and symbols, BLEU says nothing.
    left_out = () if "ter" in result["metrics"] else ("bleu",)
    for name, value in result["metrics"].items():
        if name in left_out:
            continue
        shown = f"{value:+d}" if name == "alignment_shift" else f"{value:.2f}"
        table.add_row(name.replace("_", " "), shown)
    for name, value in result.get("explanations", {}).items():
        if name in EXPLANATIONS:
            table.add_row(EXPLANATIONS[name], f"{value:.3f}")
    console = Console(force_terminal=is_terminal(sys.stdout))
    console.print(table)
    console.print(f"model: {models}", markup=False, highlight=False, soft_wrap=True)
    if "search" in result:
        options = [f"{name}={value}" for name, value in result["search"].items()]
        console.print(f"decoding: {', '.join(options) or 'greedy'}", highlight=False)
    for name, signature in result["signatures"].items():
        if name not in left_out:
            console.print(f"{name}: {signature}", highlight=False, soft_wrap=True)


def best_step(result: dict) -> str:
    """The model of an evaluation that a run has kept, in words."""
    return f"step {result['step']}, the best on validation"


def strips(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> list[str]:
    """Weights as text: a line for each target token, a shade for each source token.

    The source token that is weighted most is named.

    Args:
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
    """
    width = max(map(cell_len, target))
    shades = np.array(list(SHADES))[np.digitize(alignment, (0.1, 0.3, 0.5, 0.8))]
    padded = [set_cell_size(token, width) for token in target]
    return [
        f"{token} |{''.join(row)}| {bracketed(source[int(weights.argmax())])} {weights.max():.2f}"
        for token, row, weights in zip(padded, shades, alignment, strict=True)
    ]


def latex(text: str) -> str:
    """A text as LaTeX that shows all its signs."""
    text = re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", "\N{REPLACEMENT CHARACTER}", text)
    return "".join(SIGNS.get(sign, sign) for sign in text)


def bold(cell: str) -> str:
    """A cell whose mean, without its deviation, is bold."""
    mean, *deviation = cell.split(" ± ")
    return " ".join([rf"\textbf{{{latex(mean)}}}", *(rf"$\pm$ {latex(one)}" for one in deviation)])


def tabular(plain: pd.DataFrame, cells: pd.DataFrame) -> str:
    """A table in the style of booktabs, with columns of numbers aligned to the right.

    Args:
      plain: the table as text, which has the heading, and by which columns are aligned.
      cells: in LaTeX.
    """
    sides = "".join("r" if all(map(is_figure, column)) else "l" for _, column in plain.items())
    heading, *rows = [
        " & ".join(row) + r" \\" for row in (map(latex, plain.columns), *cells.to_numpy())
    ]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            heading,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def floating(kind: str, content: str, caption: str, label: str, wide: bool) -> str:
    """A table or figure with its caption, which LaTeX places.

    Args:
      kind: `table` or `figure`.
      content: in LaTeX.
      caption: as text.
      label: by which a paper refers to it.
      wide: whether it takes both columns of a page.
    """
    star = "*" if wide else ""
    told = rf"\caption{{{latex(caption)}}}" "\n" rf"\label{{{label}}}"
    # Many styles leave no room between a caption and a table below it.
    parts = [told, r"\smallskip", "", content] if kind == "table" else [content, told]
    inside = "\n".join([r"\centering", r"\small", *parts])
    return f"\\begin{{{kind}{star}}}\n{inside}\n\\end{{{kind}{star}}}"
