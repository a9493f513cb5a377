"""The style of figures, and how they are written."""

import functools
import io
import logging
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from attn_jax.files import writing

# Where no folder can be written to, Matplotlib warns that it will look for fonts in every process.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

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
STYLE = {
    "font.size": 9,
    "font.family": [name for name in FONTS if name in get_font_names()],
    "text.parse_math": False,  # a token may have a dollar sign
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")

# Decorates functions that draw, so that other figures, as in a notebook, keep their own style.
styled = mpl.rc_context(STYLE)


class Picture(Figure):
    """A figure that a notebook shows, as the last line of a cell."""

    def _repr_png_(self) -> bytes:
        return png(self)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG."""
    with writing(path) as (beside,):
        beside.write_bytes(png(figure))


@styled
def png(figure: Figure) -> bytes:
    """A figure as PNG; says once if signs are missing, which Matplotlib does for each."""
    data = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing from font")
        figure.savefig(data, format="png", dpi=130, bbox_inches="tight")
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
