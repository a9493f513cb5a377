"""Text and tables in LaTeX."""

import re

import pandas as pd

from attn_jax.reporting.printing import is_figure

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
