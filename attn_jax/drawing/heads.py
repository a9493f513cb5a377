"""The figure of the weights of each layer and head."""

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import matplotlib as mpl
import numpy as np

from attn_jax.attention.head_names import head_name
from attn_jax.drawing.alignments import add_scale, room, shade, visible
from attn_jax.drawing.style import DPI, SCREEN, STYLE, Page, Picture, styled, wrapped

NOTEBOOK = 900 / DPI  # inches of a picture that a notebook shows as large as it is
TOKEN, PANEL = 0.19, 0.9  # inches of a token, at most, but for panels that would be smaller
FONT = 7.0  # points, at most
SMALLEST = 5.0  # points of a token that can be read
SIGN, LINE = 0.6 * FONT / 72, 1.3 * FONT / 72  # inches of a sign, on average, and of a line
SHORTEST = len("head 12: 99%")  # a line of a title
BETWEEN = 0.12  # inches between panels
BESIDE, AROUND = 0.3, 1.0  # inches beside, and above and below all: names of axes, the scale
SCALE = 2.8  # inches


@dataclasses.dataclass(frozen=True)
class Grid:
    """A place for each head: so many across, in one or several rows of each layer."""

    names: list[list[str]]  # of each layer's heads
    source: Sequence[str]
    target: Sequence[str]
    page: Page
    across: int
    told: bool = True  # whether tokens stand beside and below the panels

    @property
    def down(self) -> int:
        """Rows of a layer."""
        return -(-len(self.names[0]) // self.across)

    @property
    def rows(self) -> int:
        """Rows of all layers."""
        return len(self.names) * self.down

    @property
    def token(self) -> float:
        """Inches of a token, with which the figure fits on the page."""
        width = min(self.page.width, NOTEBOOK) - self._beside
        height = max(self.page.height - self._around - self.rows * (2 * LINE + BETWEEN), 1)
        return min(
            max(TOKEN, PANEL / len(self.source)),
            (width / self.across - BETWEEN) / len(self.source),
            height / (self.rows * len(self.target)),
        )

    @property
    def font(self) -> float:
        """Points of a token, with which neighbours do not touch."""
        return min(FONT, 0.92 * 72 * self.token)

    @property
    def titles(self) -> np.ndarray:
        """The names in lines, as long as a panel is wide or still can be read."""
        signs = max(int(self._column / SIGN), SHORTEST)
        return np.array([[wrapped(name, signs) for name in names] for names in self.names])

    @property
    def font_of_titles(self) -> float:
        """Points of a title, with which neighbours do not touch."""
        longest = max(len(line) for title in self.titles.ravel() for line in title.split("\n"))
        return FONT * min(1, self._column / (SIGN * longest))

    @property
    def size(self) -> tuple[float, float]:
        """Inches of the figure, across and down."""
        lines = 1 + max(title.count("\n") for title in self.titles.ravel())
        row = lines * LINE + BETWEEN + self.token * len(self.target)
        return self._beside + self.across * self._column, self._around + self.rows * row

    def has_below(self, layer: int, head: int) -> bool:
        """Whether tokens stand below a panel: below all, or below each layer of several rows."""
        is_last = head + self.across >= len(self.names[0])
        return self.told and is_last and (self.down > 1 or layer == len(self.names) - 1)

    @property
    def _column(self) -> float:
        return self.token * len(self.source) + BETWEEN

    @property
    def _beside(self) -> float:
        return BESIDE + self._room(self.target)

    @property
    def _around(self) -> float:
        return AROUND + self._room(self.source) * (1 if self.down == 1 else len(self.names))

    def _room(self, tokens: Sequence[str]) -> float:
        return room(tokens) * FONT / STYLE["font.size"] if self.told else 0


def laid_out(
    names: list[list[str]], source: Sequence[str], target: Sequence[str], page: Page
) -> Grid:
    """The grid with most heads across whose tokens can be read, else that without tokens."""
    count = len(names[0])
    for down in range(1, count + 1):
        across = -(-count // down)  # as evenly filled rows as possible
        grid = Grid(names, source, target, page, across)
        if grid.font >= SMALLEST:
            return grid
    return Grid(names, source, target, page, count, told=False)


@styled
def heads(
    weights: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    notes: Mapping[tuple[int, int], str] = MappingProxyType({}),
    title: str = "",
    page: Page = SCREEN,
) -> Picture:
    """The weights of each layer and head, layers down and heads across.

    Vaswani et al. 2017, figures 3 to 5, draw a few heads of self-attention. This figure is no wider
    than a notebook. A layer takes several rows if tokens could not be read otherwise; where that
    would be higher than the page, tokens are left out.

    Args:
      weights: [L, N, T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
      notes: suffixes of the titles, by layer and head, both counted from 1.
      title: stands above.
      page: what it is drawn for.
    """
    layers, count, *_ = weights.shape
    numbers = [[(layer, head + 1) for head in range(count)] for layer in range(1, layers + 1)]
    names = [[head_name(*one) + notes.get(one, "") for one in numbered] for numbered in numbers]
    grid = laid_out(names, source, target, page)
    (width, height), titles = grid.size, grid.titles
    rc = {"font.size": FONT, "axes.titlesize": grid.font_of_titles, "figure.titlesize": 9}
    with mpl.rc_context(rc):
        figure = Picture(figsize=grid.size, layout="compressed")
        places = figure.subplots(grid.rows, grid.across, squeeze=False)
        for (layer, head), axes in np.ndenumerate(places.reshape(layers, -1)):
            if head >= count:
                axes.set_axis_off()
                continue
            shade(axes, weights[layer, head], source)
            axes.set_title(titles[layer, head])
            axes.set(xticks=[], yticks=[])
            axes.tick_params(labelsize=grid.font)
            if grid.told and head % grid.across == 0:
                axes.set_yticks(range(len(target)), visible(target))
            if grid.has_below(layer, head):
                turned = 90 if max(map(len, source)) > 1 else 0
                axes.set_xticks(range(len(source)), visible(source), rotation=turned)
            axes.spines[:].set_visible(True)
        figure.suptitle(wrapped(title, int(width / 0.085)))
        figure.supxlabel("source")
        figure.supylabel("target")
        where = {"location": "top", "shrink": min(1, SCALE / width), "pad": BETWEEN / height}
        add_scale(figure, places, [weights], **where)
    return figure
