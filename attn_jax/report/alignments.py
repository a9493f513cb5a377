"""Figures of attention weights."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from attn_jax.errors import InputError
from attn_jax.head_names import head_name
from attn_jax.report.labels import wrapped
from attn_jax.report.style import COLOURS, styled

WIDEST = 12.0  # inches of several panels side by side
NARROWEST = 3.2  # inches of one of them, to leave room for its title
LARGEST = 40.0  # inches of a figure; tokens are made smaller to stay below
SCALE = 0.4  # smallest end of a scale of weights, so that soft ones stay light


def _visible(tokens: Sequence[str]) -> list[str]:
    return ["␣" if token == " " else token for token in tokens]


def _highest(alignments: Iterable[np.ndarray]) -> float:
    """The end of the scale of weights in a figure: its largest weight, but at least `SCALE`."""
    return max(SCALE, *(float(np.max(weights)) for weights in alignments))


def _check_sizes(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> None:
    if np.shape(alignment) != (len(target), len(source)):
        raise InputError(
            f"weights {list(np.shape(alignment))} do not fit {len(target)} target tokens (with the "
            f"end of the sentence, if it has weights) and {len(source)} source tokens"
        )


def _draw_heat_map(
    axes: Axes,
    alignment: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    highest: float,
) -> AxesImage:
    image = axes.imshow(alignment, cmap="Greys", vmin=0, vmax=highest, aspect="equal")
    axes.set_xticks(range(len(source)), _visible(source))
    axes.set_yticks(range(len(target)), _visible(target))
    if max(map(len, source)) > 2:
        axes.tick_params(axis="x", rotation=90)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("source")
    axes.set_ylabel("target")
    axes.spines[:].set_visible(True)
    return image


@styled
def heat_map(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Figure:
    """The weights of one sentence, target tokens down and source tokens across.

    Bahdanau, Cho and Bengio 2014, figure 3.

    Args:
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.

    Raises:
      InputError: the numbers of tokens are others.
    """
    _check_sizes(alignment, source, target)
    token = min(0.26, LARGEST / max(len(source), len(target)))
    size = 1.8 + token * len(source), 1.2 + token * len(target)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    image = _draw_heat_map(axes, alignment, source, target, _highest([alignment]))
    axes.tick_params(labelsize=9 * token / 0.26)
    figure.colorbar(image, ax=axes, shrink=0.6, label="weight")
    return figure


class Panel(NamedTuple):
    """A sentence under one system, in the tokens of that system."""

    alignment: np.ndarray  # weights [T, S]
    source: Sequence[str]  # S tokens
    target: Sequence[str]  # T tokens that it wrote
    reference: Sequence[str]  # the tokens of the reference, end of sentence included


def common(said: Sequence[str], reference: Sequence[str]) -> set[int]:
    """The places of tokens that the reference also has, in the same order."""
    blocks = SequenceMatcher(None, said, reference, autojunk=False).get_matching_blocks()
    return {place for start, _, size in blocks for place in range(start, start + size)}


@styled
def beside(panels: dict[str, Panel]) -> Figure:
    """The same sentence under several systems; tokens that do not match the reference are red."""
    widest = max(len(panel.source) for panel in panels.values())
    tallest = max(len(panel.target) for panel in panels.values())
    token = np.clip(2.4 / max(widest, tallest), 0.26, 0.5)  # inches of a token
    across, down = (_room(panels.values(), side) for side in ("target", "source"))
    width = max(NARROWEST, 0.4 + across + token * widest)
    columns = min(len(panels), max(2, int(WIDEST / width)))
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)  # as evenly filled rows as possible
    titles = [wrapped(label, int(9 * width)) for label in panels]
    lines = 1 + max(title.count("\n") for title in titles)
    height = 0.9 + 0.17 * lines + down + token * tallest
    figure = Figure(figsize=(columns * width + 0.8, rows * height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.15)
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    # Weights may be larger than 1 with `gmm`, beside which all others would be white.
    highest = min(_highest(panel.alignment for panel in panels.values()), 1)
    for axes, title, panel in zip(all_axes, titles, panels.values(), strict=False):
        image = _draw_heat_map(axes, *panel[:3], highest)
        # All panels have the same size, even if a system stops at once or never.
        axes.set(xlim=(-0.5, widest - 0.5), ylim=(tallest - 0.5, -0.5))
        axes.set_title(title, fontweight="bold")
        # Outside of the sentence, where white would mean a weight of 0, and grey a larger one.
        axes.set_facecolor("#dce9f5")
        matching = common(panel.target, panel.reference)
        for place, tick in enumerate(axes.get_yticklabels()):
            tick.set_color("black" if place in matching else "red")
    more = any(panel.alignment.max() > highest for panel in panels.values())
    extend = "max" if more else "neither"
    figure.colorbar(image, ax=all_axes, shrink=0.4, label="weight", extend=extend)
    return figure


def _room(panels: Iterable[Panel], side: str) -> float:
    """Inches that the longest token of a side needs beside or above the weights."""
    return 0.2 + 0.08 * max(len(token) for panel in panels for token in getattr(panel, side))


@styled
def heads(
    weights: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    notes: Mapping[tuple[int, int], str] = MappingProxyType({}),
) -> Figure:
    """The weights of each layer and head, layers down and heads across.

    Vaswani et al. 2017, figures 3 to 5, draw a few heads of self-attention.

    Args:
      weights: [L, N, T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
      notes: suffixes of the titles, by layer and head, both counted from 1.
    """
    layers, count, *_ = weights.shape
    highest = _highest([weights])
    token = min(0.19, LARGEST / (count * len(source)), LARGEST / (layers * len(target)))
    size = 1.4 + count * (0.3 + token * len(source)), 1.0 + layers * (0.3 + token * len(target))
    with mpl.rc_context({"font.size": 7, "axes.titlesize": 7}):
        figure = Figure(figsize=size, layout="compressed")
        all_axes = figure.subplots(layers, count, squeeze=False, sharex=True, sharey=True)
        for (layer, head), axes in np.ndenumerate(all_axes):
            image = axes.imshow(weights[layer, head], cmap="Greys", vmin=0, vmax=highest)
            number = layer + 1, head + 1
            axes.set_title(head_name(*number) + notes.get(number, ""))
            axes.set_xticks(range(len(source)), _visible(source), rotation=90)
            axes.set_yticks(range(len(target)), _visible(target))
            axes.tick_params(labelsize=7 * token / 0.19)
            axes.spines[:].set_visible(True)
        figure.supxlabel("source")
        figure.supylabel("target")
        figure.colorbar(image, ax=all_axes, shrink=0.5, label="weight")
    return figure


@styled
def step_bars(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Figure:
    """The weights of each step as a separate bar chart. Arguments and errors as in `heat_map`."""
    _check_sizes(alignment, source, target)
    figure = Figure(
        figsize=(
            1.2 + min(0.24 * len(source), LARGEST),
            0.5 + min(0.42 * len(target), LARGEST),
        ),
        layout="constrained",
    )
    all_axes = figure.subplots(len(target), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    highest = _highest([alignment])
    for axes, weights, token in zip(all_axes, alignment, _visible(target), strict=True):
        axes.bar(range(len(source)), weights, color=COLOURS[0])
        axes.set_ylim(0, highest)
        axes.set_yticks([])
        axes.set_ylabel(token, rotation=0, ha="right", va="center")
    all_axes[-1].set_xticks(range(len(source)), _visible(source))
    if max(map(len, source)) > 2:
        all_axes[-1].tick_params(axis="x", rotation=90)
    all_axes[-1].set_xlabel(f"source (bars are weights from 0 to {highest:.2g})")
    return figure
