"""Figures of attention weights."""

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm

from attn_jax.drawing.style import COLOURS, ONE_COLUMN, SCREEN, Page, Picture, styled, wrapped
from attn_jax.errors import InputError
from attn_jax.tokens import bracketed, is_second

LARGEST = SCREEN.height  # inches of a figure; tokens are made smaller to stay below
LONGEST = 32  # signs of a token
TOKEN = 0.26  # inches of a token of a heat map on a screen
FEW, CELL = 8, 0.38  # tokens with which a heat map has numbers; inches of one of them then
SMALLEST = 4.0  # points of a token that can be read in print
SHADES = "Greys"
TICKS = 0, 0.05, 0.2, 0.5, 1  # of the scale of weights
ROUNDING = 1e-5  # by which a sum of weights may exceed 1


def visible(tokens: Sequence[str]) -> list[str]:
    """Tokens as they are drawn: a space as a sign, and of long ones the beginning.

    Those of a second source are drawn in brackets.
    """
    whole = map(bracketed, tokens)
    cut = (token if len(token) <= LONGEST else f"{token[: LONGEST - 1]}…" for token in whole)
    return ["␣" if token == " " else token for token in cut]


def room(tokens: Sequence[str]) -> float:
    """Inches that the longest of these tokens takes beside or above weights."""
    return 0.08 * max(map(len, visible(tokens)))


def _norm() -> PowerNorm:
    """The scale of all figures, from 0 to 1; larger weights are as black as 1, negative ones white.

    A shade stands for the square root of a weight, since otherwise soft weights over many positions
    would be white.
    """
    return PowerNorm(0.5, vmin=0, vmax=1)


def shade(axes: Axes, alignment: np.ndarray, source: Sequence[str]) -> None:
    """Draws weights on that scale, with a line between those of two sources."""
    axes.imshow(alignment, cmap=SHADES, norm=_norm())
    first = sum(not is_second(token) for token in source)
    if first < len(source):
        axes.axvline(first - 0.5, color=COLOURS[0], linewidth=1)


def add_scale(
    figure: Picture,
    axes: Axes | Iterable[Axes],
    alignments: Iterable[np.ndarray],
    **how: Any,
) -> None:
    """Adds the scale of weights, pointed where some are beyond it."""
    below, above = map(any, zip(*map(_beyond, alignments), strict=True))
    extend = ("neither", "min", "max", "both")[below + 2 * above]
    how |= {"extend": extend, "ticks": TICKS, "format": "%g"}
    how["label"] = "weight (those below 0 are white)" if below else "weight"
    figure.colorbar(ScalarMappable(_norm(), SHADES), ax=axes, **how)


def _beyond(alignment: np.ndarray) -> tuple[bool, bool]:
    """Whether a weight is below 0, as those of mixed heads may be, and above 1, as of `gmm`."""
    return bool(np.min(alignment) < -ROUNDING), bool(np.max(alignment) > 1 + ROUNDING)


def _check_sizes(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> None:
    if np.shape(alignment) != (len(target), len(source)):
        raise InputError(
            f"weights {list(np.shape(alignment))} do not fit {len(target)} target tokens (with the "
            f"end of the sentence, if it has weights) and {len(source)} source tokens"
        )


def draw_heat_map(
    axes: Axes,
    alignment: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
) -> None:
    """Draws the weights [T, S] between S source and T target tokens."""
    shade(axes, alignment, source)
    axes.set_xticks(range(len(source)), visible(source))
    axes.set_yticks(range(len(target)), visible(target))
    if max(map(len, source)) > 2:
        axes.tick_params(axis="x", rotation=90)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.spines[:].set_visible(True)


@styled
def heat_map(
    alignment: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    page: Page = SCREEN,
) -> Picture:
    """The weights of one sentence, target tokens down and source tokens across.

    Bahdanau, Cho and Bengio 2014, figure 3.

    Args:
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
      title: stands above.
      page: what it is drawn for.

    Raises:
      InputError: the numbers of tokens are others.
    """
    _check_sizes(alignment, source, target)
    token = token_size(page, source, target)
    size = (
        _beside(page, target) + token * len(source),
        (1.1 + 0.4 * _is_narrow(page) + 0.25 * bool(title) + room(source)) * page.scale
        + token * len(target),
    )
    with mpl.rc_context(page.rc):
        figure = Picture(figsize=size, layout="constrained")
        axes = figure.subplots()
        draw_heat_map(axes, alignment, source, target)
        axes.set_title(wrapped(title, int(size[0] / (0.085 * page.scale))))
        axes.tick_params(labelsize=font_of(page, token))
        if token > 0.9 * CELL * page.scale:
            _number(axes, alignment, 0.8 * page.font)
        where = {"location": "bottom", "shrink": 0.9} if _is_narrow(page) else {"shrink": 0.6}
        add_scale(figure, axes, [alignment], **where)
    return figure


def _number(axes: Axes, alignment: np.ndarray, points: float) -> None:
    """Writes weights into their cells."""
    for (step, position), weight in np.ndenumerate(np.asarray(alignment)):
        colour = "white" if _norm()(weight) > 0.6 else "black"
        where = {"ha": "center", "va": "center"}
        axes.text(position, step, f"{weight:.2f}", color=colour, fontsize=points, **where)


def token_size(page: Page, source: Sequence[str], target: Sequence[str]) -> float:
    """Inches of a token of a heat map, with which it fits on a page."""
    longest = max(len(source), len(target))
    left = (page.width - _beside(page, target)) / len(source)
    return min((CELL if longest <= FEW else TOKEN) * page.scale, left, LARGEST / longest)


def is_legible(page: Page, source: Sequence[str], target: Sequence[str]) -> bool:
    """Whether the tokens of a heat map can be read on a page."""
    return font_of(page, token_size(page, source, target)) >= SMALLEST


def _is_narrow(page: Page) -> bool:
    """Whether a scale has its place below the weights."""
    return page == ONE_COLUMN


def _beside(page: Page, target: Sequence[str]) -> float:
    """Inches beside the weights of a heat map: target tokens, and the scale if it stands there."""
    return ((0.6 if _is_narrow(page) else 1.7) + room(target)) * page.scale


def font_of(page: Page, token: float) -> float:
    """Points of the text of a token of so many inches."""
    return page.font * min(1, token / (TOKEN * page.scale))


@styled
def step_bars(
    alignment: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    page: Page = SCREEN,
) -> Picture:
    """The weights of each step as a separate bar chart. Arguments and errors as in `heat_map`."""
    _check_sizes(alignment, source, target)
    beside = (1.1 + room(target)) * page.scale
    bar = min(0.24 * page.scale, LARGEST / len(source), (page.width - beside) / len(source))
    size = (
        beside + bar * len(source),
        (0.4 + 0.3 * bool(title) + room(source) + min(0.42 * len(target), LARGEST)) * page.scale,
    )
    with mpl.rc_context(page.rc):
        figure = Picture(figsize=size, layout="constrained")
        all_axes = figure.subplots(len(target), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, weights, token in zip(all_axes, alignment, visible(target), strict=True):
            axes.bar(range(len(source)), weights, color=COLOURS[0])
            axes.set_ylim(0, 1)
            axes.set_yticks([])
            axes.set_ylabel(token, rotation=0, ha="right", va="center")
        last = all_axes[-1]
        last.set_xticks(range(len(source)), visible(source))
        last.tick_params(axis="x", labelsize=page.font * min(1, bar / (0.15 * page.scale)))
        if max(map(len, source)) > 2:
            last.tick_params(axis="x", rotation=90)
        cut = ", others are cut off" if any(_beyond(alignment)) else ""
        last.set_xlabel(f"source (bars are weights from 0 to 1{cut})")
        figure.suptitle(title)
    return figure
