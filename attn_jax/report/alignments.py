"""Figures of attention weights."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from attn_jax.errors import InputError
from attn_jax.evaluation.edits import edit_path, matches
from attn_jax.head_names import head_name
from attn_jax.report.labels import wrapped
from attn_jax.report.style import COLOURS, styled
from attn_jax.tokens import EOS, SPECIALS

WIDEST = 12.0  # inches of several panels side by side
NARROWEST = 3.2  # inches of one of them, to leave room for its title
LARGEST = 40.0  # inches of a figure; tokens are made smaller to stay below
TICKS = 0, 0.05, 0.2, 0.4, 0.6, 0.8, 1  # of the scale of weights
ROUNDING = 1e-5  # by which a sum of weights may exceed 1


def _visible(tokens: Sequence[str]) -> list[str]:
    return ["␣" if token == " " else token for token in tokens]


def _shaded(axes: Axes, alignment: np.ndarray) -> AxesImage:
    """Draws weights on the scale of all figures, from 0 to 1; larger weights are as black as 1.

    A shade stands for the square root of a weight, since otherwise soft weights over many positions
    would be white.
    """
    return axes.imshow(alignment, cmap="Greys", norm=PowerNorm(0.5, vmin=0, vmax=1))


def _add_scale(
    figure: Figure, image: AxesImage, axes: Iterable[Axes], alignments: Iterable[np.ndarray], **how
) -> None:
    """Adds the scale of weights, pointed where some are larger than 1, as those of `gmm`."""
    extend = "max" if any(map(_exceeds, alignments)) else "neither"
    figure.colorbar(image, ax=axes, label="weight", extend=extend, ticks=TICKS, **how)


def _exceeds(alignment: np.ndarray) -> bool:
    """Whether a weight is larger than 1."""
    return np.max(alignment) > 1 + ROUNDING


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
) -> AxesImage:
    image = _shaded(axes, alignment)
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
    image = _draw_heat_map(axes, alignment, source, target)
    axes.tick_params(labelsize=9 * token / 0.26)
    _add_scale(figure, image, axes, [alignment], shrink=0.6)
    return figure


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


class Errors(NamedTuple):
    """Where a sentence differs from its reference, by the edits that its error rate counts."""

    wrong: set[int]  # the places of tokens that replace others, or are too many
    missing: set[int]  # the places before which tokens are missing


def errors(said: Sequence[str], reference: Sequence[str]) -> Errors:
    """The errors of what a system wrote; the end of the sentence, if it is there, is none."""
    said = [token for token in said if token != SPECIALS[EOS]]
    wrong = set(range(len(said))) - {place for place, _ in matches(said, reference)}
    missing, following = set(), 0
    for place, _ in edit_path(said, reference):
        if place is None:
            missing.add(following)
        else:
            following = place + 1
    return Errors(wrong, missing)


@styled
def beside(panels: dict[str, Panel]) -> Figure:
    """The same sentence under several systems, with their errors.

    Tokens that replace others of the reference or are too many are red, and a red line stands where
    tokens are missing.
    """
    widest = max(len(panel.source) for panel in panels.values())
    tallest = max(len(panel.written) for panel in panels.values())
    token = np.clip(2.4 / max(widest, tallest), 0.26, 0.5)  # inches of a token
    across, down = (_room(panels.values(), side) for side in ("written", "source"))
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
    for axes, title, panel in zip(all_axes, titles, panels.values(), strict=False):
        image = _draw_heat_map(axes, panel.alignment, panel.source, panel.written)
        # All panels have the same size, even if a system stops at once or never.
        axes.set(xlim=(-0.5, widest - 0.5), ylim=(tallest - 0.5, -0.5))
        axes.set_title(title, fontweight="bold")
        # Outside of the sentence, where white would mean a weight of 0, and grey a larger one.
        axes.set_facecolor("#dce9f5")
        _mark_errors(axes, panel)
    _add_scale(figure, image, all_axes, (panel.alignment for panel in panels.values()), shrink=0.4)
    return figure


def _mark_errors(axes: Axes, panel: Panel) -> None:
    wrong, missing = errors(panel.target, panel.reference)
    for place, tick in enumerate(axes.get_yticklabels()):
        tick.set_color("red" if place in wrong else "black")
    between = [place - 0.5 for place in sorted(missing) if place <= len(panel.written)]
    # Outside of the axes, over the room of the tick labels.
    axes.hlines(between, -1.3, -0.5, color="red", linewidth=1.5, clip_on=False)


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
    token = min(0.19, LARGEST / (count * len(source)), LARGEST / (layers * len(target)))
    size = 1.4 + count * (0.3 + token * len(source)), 1.0 + layers * (0.3 + token * len(target))
    with mpl.rc_context({"font.size": 7, "axes.titlesize": 7}):
        figure = Figure(figsize=size, layout="compressed")
        all_axes = figure.subplots(layers, count, squeeze=False, sharex=True, sharey=True)
        for (layer, head), axes in np.ndenumerate(all_axes):
            image = _shaded(axes, weights[layer, head])
            number = layer + 1, head + 1
            axes.set_title(head_name(*number) + notes.get(number, ""))
            axes.set_xticks(range(len(source)), _visible(source), rotation=90)
            axes.set_yticks(range(len(target)), _visible(target))
            axes.tick_params(labelsize=7 * token / 0.19)
            axes.spines[:].set_visible(True)
        figure.supxlabel("source")
        figure.supylabel("target")
        _add_scale(figure, image, all_axes, [weights], shrink=0.5)
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
    for axes, weights, token in zip(all_axes, alignment, _visible(target), strict=True):
        axes.bar(range(len(source)), weights, color=COLOURS[0])
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.set_ylabel(token, rotation=0, ha="right", va="center")
    all_axes[-1].set_xticks(range(len(source)), _visible(source))
    if max(map(len, source)) > 2:
        all_axes[-1].tick_params(axis="x", rotation=90)
    cut = ", larger ones cut off" if _exceeds(alignment) else ""
    all_axes[-1].set_xlabel(f"source (bars are weights from 0 to 1{cut})")
    return figure
