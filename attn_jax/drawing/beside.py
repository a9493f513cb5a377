"""The figure of one sentence under several systems."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from attn_jax.drawing.alignments import add_scale, draw_heat_map, font_of, room
from attn_jax.drawing.style import SCREEN, Page, Picture, styled, wrapped
from attn_jax.edits import edits_of

WIDEST = 12.0  # inches of several panels side by side
SCALE = 0.8  # inches of the scale beside them
NARROWEST = 3.2  # inches of one of them, to leave room for its title


class Panel(NamedTuple):
    """A sentence under one system, in the tokens of that system."""

    alignment: np.ndarray  # weights [T, S] of the first steps, which are drawn
    source: Sequence[str]  # S tokens
    target: Sequence[str]  # all tokens that it wrote, end of sentence included if it came to that
    reference: Sequence[str]  # the tokens of the reference, without the end of the sentence

    @property
    def written(self) -> Sequence[str]:
        """The tokens of the steps that are drawn, T."""
        return self.target[: len(self.alignment)]

    def cut(self, most: int) -> str:
        """A remark for the caption of a figure of at most `most` steps, if it leaves some out."""
        drawn, steps = min(most, len(self.written)), len(self.target)
        return f"; the first {drawn} of {steps} steps" if drawn < steps else ""


@styled
def beside(panels: dict[str, Panel], page: Page = SCREEN) -> Picture:
    """The same sentence under several systems, with their errors.

    Tokens that replace others of the reference or are too many are red, and a red line stands where
    tokens are missing.

    Args:
      panels: the sentence under each system, by its name.
      page: what it is drawn for.
    """
    widest = max(len(panel.source) for panel in panels.values())
    tallest = max(len(panel.written) for panel in panels.values())
    token = page.scale * np.clip(2.4 / max(widest, tallest), 0.26, 0.5)  # inches of a token
    around = page.scale * (0.6 + max(room(panel.written) for panel in panels.values()))
    down = page.scale * (0.2 + max(room(panel.source) for panel in panels.values()))
    width = max(NARROWEST * page.scale, around + token * widest)
    columns = min(len(panels), max(page.abreast, int(min(WIDEST, page.width) / width)))
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)  # as evenly filled rows as possible
    width = min(width, (page.width - SCALE) / columns)
    token = min(token, (width - around) / widest)
    titles = [wrapped(label, int(9 * width / page.scale)) for label in panels]
    lines = 1 + max(title.count("\n") for title in titles)
    height = (0.9 + 0.17 * lines) * page.scale + down + token * tallest
    layout = ConstrainedLayoutEngine(h_pad=0.15)
    with mpl.rc_context(page.rc):
        figure = Picture(figsize=(columns * width + SCALE, rows * height), layout=layout)
        all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        for axes, title, panel in zip(all_axes, titles, panels.values(), strict=False):
            draw_heat_map(axes, panel.alignment, panel.source, panel.written)
            # All panels have the same size, even if a system stops at once or never.
            axes.set(xlim=(-0.5, widest - 0.5), ylim=(tallest - 0.5, -0.5))
            axes.set_title(title, fontweight="bold")
            axes.tick_params(labelsize=font_of(page, token))
            # Outside of the sentence, where white would mean a weight of 0, and grey a larger one.
            axes.set_facecolor("#dce9f5")
            _mark_errors(axes, panel)
        add_scale(figure, all_axes, (panel.alignment for panel in panels.values()), shrink=0.4)
    return figure


def _mark_errors(axes: Axes, panel: Panel) -> None:
    edits = edits_of(panel.target, panel.reference)
    wrong = {place for place, _ in edits.wrong}
    for place, tick in enumerate(axes.get_yticklabels()):
        tick.set_color("red" if place in wrong else "black")
    places = sorted({place for place, _ in edits.missing})
    between = [place - 0.5 for place in places if place <= len(panel.written)]
    # Outside of the axes, over the room of the tick labels.
    axes.hlines(between, -1.3, -0.5, color="red", linewidth=1.5, clip_on=False)
