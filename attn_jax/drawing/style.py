"""The style of figures, how they are written, and the labels that fit into them."""

import functools
import io
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from attn_jax.files import writing

# The fonts after the first are for characters that it lacks, if they are installed.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans Devanagari",
    "Hiragino Sans",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Nirmala UI",
)
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": [name for name in FONTS if name in get_font_names()],
    "text.parse_math": False,  # a token may have a dollar sign
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "figure.titlesize": 10,
    "pdf.fonttype": 42,  # TrueType, since publishers refuse the Type 3 that is usual
    "svg.hashsalt": "attn_jax",  # its names of parts would be random
}
DPI = 130  # dots in an inch of a PNG
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")

# What a figure leaves out of its file, so that the same figure is the same file.
UNDATED = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
INSIDE = re.compile(r"(?<=[=:,])|(?=\()")  # where a long word of options may be split


class Page(NamedTuple):
    """What a figure is drawn for: its width, and sizes that go with it."""

    width: float  # most inches
    height: float  # most inches
    font: float  # points
    abreast: int  # most charts side by side
    name: str  # in the name of a file

    @property
    def scale(self) -> float:
        """Sizes of text and what holds it, compared with those on a screen."""
        return self.font / STYLE["font.size"]

    @property
    def rc(self) -> dict[Any, Any]:
        """What a figure for this page changes of the style."""
        sizes = ("font.size", "axes.titlesize", "figure.titlesize")
        return {name: self.scale * STYLE[name] for name in sizes}


SCREEN = Page(float("inf"), 40, STYLE["font.size"], 2, "")
# The columns of the ACL, which are narrower than those of most others.
ONE_COLUMN = Page(3.03, 9, 7, 1, "one-column")
TWO_COLUMNS = Page(6.3, 9, 8, 2, "two-columns")

# Decorates functions that draw, so that other figures, as in a notebook, keep their own style.
styled = mpl.rc_context(STYLE)


class Picture(Figure):
    """A figure that a notebook shows, as the last line of a cell."""

    def _repr_png_(self) -> bytes:
        return png(self)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG, PDF or SVG, which the suffix of the path says."""
    with writing(path) as (beside,):
        beside.write_bytes(_drawn(figure, path.suffix[1:]))


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    return _drawn(figure, "png")


@styled
def _drawn(figure: Figure, kind: str) -> bytes:
    """A figure as the content of a file; says once if signs are missing, not for each of them."""
    data = io.BytesIO()
    # A figure for a page keeps its size, which is that of the column.
    box = "tight" if kind == "png" else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        figure.savefig(data, format=kind, dpi=DPI, bbox_inches=box, metadata=UNDATED[kind])
    for warning in caught:
        if "missing from font" in str(warning.message):
            _tell_of_boxes()
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    return data.getvalue()


@functools.cache
def _tell_of_boxes() -> None:
    print(
        "warning: some signs are drawn as boxes, since no installed font has them; of these fonts, "
        f"those that are installed are used: {', '.join(FONTS)}",
        file=sys.stderr,
    )


def wrapped(label: str, signs: int = 32) -> str:
    """Wraps a label to lines of at most `signs` characters; only longer words are split."""
    words = [
        part
        for word in label.split()
        for part in ([word] if len(word) <= signs else _parts(word, signs))
    ]
    return "\n".join(_packed(words, " ", signs))


def _parts(word: str, signs: int) -> list[str]:
    """Splits a long word at options and settings, and anywhere if these are too long as well."""
    pieces = (piece for part in INSIDE.split(word) for piece in textwrap.wrap(part, signs))
    return _packed(pieces, "", signs)


def _packed(pieces: Iterable[str], between: str, signs: int) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(between) + len(piece) <= signs:
            lines[-1] += between + piece
        else:
            lines.append(piece)
    return lines
