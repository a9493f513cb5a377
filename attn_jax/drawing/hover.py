"""The weights of one sentence as a piece of HTML, in which a row or a column shows its numbers.

It is a table and a style sheet without scripts, so that notebooks show it wherever they are viewed.
"""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from attn_jax.drawing.alignments import visible
from attn_jax.drawing.style import COLOURS

MOST = 200  # tokens of a side that are shown; a table of more would make a notebook slow
FAINTEST = 0.0005  # weights below it are shown as 0

_SHADE = " ".join(str(int(COLOURS[0][at : at + 2], 16)) for at in (1, 3, 5))
_STYLE = f"""
.attn-jax table {{border-collapse: collapse; color: inherit; font-size: 12px; margin: 0.5em 0}}
.attn-jax tr, .attn-jax tr:nth-child(n) {{background: none}}
.attn-jax th {{font-weight: normal; padding: 1px 4px; text-align: right; white-space: pre}}
.attn-jax thead th {{vertical-align: bottom; text-align: center}}
.attn-jax .long {{writing-mode: vertical-rl; transform: rotate(180deg); text-align: left}}
.attn-jax td {{background: rgb({_SHADE} / var(--w, 0)); border: 1px solid rgb(128 128 128 / 0.25);
  color: transparent; font-size: 9px; height: 18px; min-width: 20px; padding: 0;
  text-align: center}}
.attn-jax tbody tr:hover th {{font-weight: bold}}
.attn-jax p {{margin: 0.2em 0}}
.attn-jax p span {{display: inline-block; min-width: 7em; opacity: 0.7}}
"""
_OF_ROW = ".attn-jax tbody tr:hover td"
_OF_COLUMN = ".attn-jax table:has(tr > :nth-child({0}):hover) td:nth-child({0})"
_SHOWN = "{color: inherit; outline: 1px solid currentColor}"
_BOLD = ".attn-jax table:has(tr > :nth-child({0}):hover) thead th:nth-child({0})"


def hover(
    texts: Mapping[str, str],
    alignment: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
) -> str:
    """HTML of texts and of the weights between tokens.

    The shade of a cell stands for the square root of its weight, as in the figures.

    Args:
      texts: what is shown above, by name.
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
    """
    above = "".join(
        f'<p dir="auto"><span>{escape(name)}</span> {escape(text)}</p>'
        for name, text in texts.items()
    )
    drawn = np.asarray(alignment)[:MOST, :MOST]
    rows = "".join(map(_row, visible(target), drawn))
    heading = "".join(map(_heading, visible(source)[:MOST]))
    cut = f"<p>Only the first {MOST} tokens are shown.</p>" if max(alignment.shape) > MOST else ""
    table = f"<table><thead><tr><th></th>{heading}</tr></thead><tbody>{rows}</tbody></table>"
    style = f"<style>{_STYLE}{_of_columns(drawn.shape[1])}</style>"
    return f'<div class="attn-jax">{style}{above}{table}{cut}</div>'


def _heading(token: str) -> str:
    inner = f'<span class="long">{escape(token)}</span>' if len(token) > 2 else escape(token)
    return f"<th>{inner}</th>"


def _row(token: str, weights: np.ndarray) -> str:
    return f"<tr><th>{escape(token)}</th>{''.join(map(_cell, weights))}</tr>"


def _cell(weight: float) -> str:
    if abs(weight) < FAINTEST:
        return "<td>0</td>"
    shade = np.sqrt(np.clip(weight, 0, 1))
    return f'<td style="--w: {shade:.3g}">{weight:.2f}</td>'.replace(">0.", ">.")


def _of_columns(count: int) -> str:
    """The rules by which a column, or a row, shows its numbers under the pointer."""
    places = range(2, count + 2)  # the first child is the token of the row
    shown = ",\n".join([_OF_ROW, *map(_OF_COLUMN.format, places)])
    bold = ",\n".join(map(_BOLD.format, places))
    return f"{shown} {_SHOWN}\n{bold} {{font-weight: bold}}\n"
