"""Figures: what a model attends to, and how systems compare."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.image import AxesImage
from matplotlib.ticker import ScalarFormatter

from attn_jax.report.labels import wrapped
from attn_jax.report.profiles import Profile, by_position
from attn_jax.report.systems import Systems, first_run

# The second and following stand in for signs that the first lacks, where they are installed.
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
mpl.use("agg")
mpl.rcParams.update(
    {
        "font.size": 9,
        "font.family": [name for name in FONTS if name in get_font_names()],
        "text.parse_math": False,  # a token may have a dollar sign
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 10,
    }
)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
WIDEST = 12.0  # inches of several panels side by side
NARROWEST = 3.2  # of one of them, above which its system is named
LARGEST = 40.0  # inches of all heads, whose tokens get smaller beyond
MARKERS = "osv^DX"  # not as many as colours, so that pairs of them repeat late


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG."""
    figure.savefig(path, dpi=130, bbox_inches="tight")


def _new(columns: int, width: float, height: float, **options) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, **options)[0]


def _legend(figure: Figure, axes: Axes) -> None:
    """Names the lines beside the axes, of which there may be many."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)


def _visible(tokens: Sequence[str]) -> list[str]:
    return ["␣" if token == " " else token for token in tokens]


def _draw_heat_map(
    axes: Axes, alignment: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> AxesImage:
    image = axes.imshow(alignment, cmap="Greys", vmin=0, vmax=1, aspect="equal")
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


def heat_map(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Figure:
    """The weights of one sentence, target tokens down and source tokens across.

    Bahdanau, Cho and Bengio 2014, figure 3.

    Args:
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
    """
    figure, (axes,) = _new(1, 1.8 + 0.26 * len(source), 1.2 + 0.26 * len(target))
    image = _draw_heat_map(axes, alignment, source, target)
    figure.colorbar(image, ax=axes, shrink=0.6, label="weight")
    return figure


class Panel(NamedTuple):
    """A sentence under one system, in its tokens."""

    alignment: np.ndarray  # weights [T, S]
    source: Sequence[str]  # S tokens
    target: Sequence[str]  # T tokens that it wrote
    reference: Sequence[str]  # what it should have written, end of sentence included


def common(said: Sequence[str], reference: Sequence[str]) -> set[int]:
    """The places of tokens that the reference has too, in the same order."""
    blocks = SequenceMatcher(None, said, reference, autojunk=False).get_matching_blocks()
    return {place for start, _, size in blocks for place in range(start, start + size)}


def beside(panels: dict[str, Panel]) -> Figure:
    """The same sentence under several systems; what the reference has not there is red."""
    widest = max(len(panel.source) for panel in panels.values())
    tallest = max(len(panel.target) for panel in panels.values())
    token = np.clip(2.4 / max(widest, tallest), 0.26, 0.5)  # inches of a weight
    across, down = (_room(panels.values(), side) for side in ("target", "source"))
    width = max(NARROWEST, 0.4 + across + token * widest)
    columns = min(len(panels), max(2, int(WIDEST / width)))
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)  # as many in each row as can be
    titles = [wrapped(label, int(9 * width)) for label in panels]
    lines = 1 + max(title.count("\n") for title in titles)
    height = 0.9 + 0.17 * lines + down + token * tallest
    figure = Figure(figsize=(columns * width + 0.8, rows * height), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.15)
    all_axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    for axes, title, panel in zip(all_axes, titles, panels.values(), strict=False):
        image = _draw_heat_map(axes, panel.alignment, panel.source, panel.target)
        # All as large, also that of a system which stops at once or does not stop.
        axes.set(xlim=(-0.5, widest - 0.5), ylim=(tallest - 0.5, -0.5))
        axes.set_title(title, fontweight="bold")
        axes.set_facecolor("0.92")  # beyond the sentence, where white would be a weight of 0
        found = common(panel.target, panel.reference)
        for place, tick in enumerate(axes.get_yticklabels()):
            tick.set_color("black" if place in found else "red")
    figure.colorbar(image, ax=all_axes, shrink=0.4, label="weight")
    return figure


def _room(panels: Iterable[Panel], side: str) -> float:
    """Inches that the longest token of a side takes beside or above the weights."""
    return 0.2 + 0.08 * max(len(token) for panel in panels for token in getattr(panel, side))


def heads(
    weights: np.ndarray,
    names: dict[tuple[int, int], str],
    source: Sequence[str],
    target: Sequence[str],
) -> Figure:
    """The weights of each layer and head, layers down and heads across.

    Vaswani et al. 2017, figures 3 to 5, draw a few heads of self-attention.

    Args:
      weights: [L, N, T, S].
      names: what to write above a layer and head.
      source: S tokens.
      target: T tokens, end of sentence included.
    """
    layers, count, *_ = weights.shape
    token = min(0.19, LARGEST / (count * len(source)), LARGEST / (layers * len(target)))
    size = 1.4 + count * (0.3 + token * len(source)), 1.0 + layers * (0.3 + token * len(target))
    with mpl.rc_context({"font.size": 7, "axes.titlesize": 7}):
        figure = Figure(figsize=size, layout="compressed")
        all_axes = figure.subplots(layers, count, squeeze=False, sharex=True, sharey=True)
        for (layer, head), axes in np.ndenumerate(all_axes):
            image = axes.imshow(weights[layer, head], cmap="Greys", vmin=0, vmax=1, aspect="equal")
            axes.set_title(names[layer + 1, head + 1])
            axes.set_xticks(range(len(source)), _visible(source), rotation=90)
            axes.set_yticks(range(len(target)), _visible(target))
            axes.tick_params(labelsize=7 * token / 0.19)
            axes.spines[:].set_visible(True)
        figure.colorbar(image, ax=all_axes, shrink=0.5, label="weight")
    return figure


def step_bars(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Figure:
    """The weights of each step as a bar chart of its own."""
    figure = Figure(
        figsize=(1.2 + 0.24 * len(source), 0.5 + 0.42 * len(target)), layout="constrained"
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
    all_axes[-1].set_xlabel("source (bars reach from 0 to 1)")
    return figure


def _mean_line(axes: Axes, x: Sequence, runs: Sequence[Sequence[float]], label: str, nth: int):
    """The mean over runs, and the range of the runs around it.

    Each line is thinner than the one before, which it may lie upon.
    """
    values = np.array(runs)
    colour = COLOURS[nth % len(COLOURS)]
    axes.plot(
        x,
        values.mean(axis=0),
        linewidth=1 + 2.5 * 0.6**nth,
        marker=MARKERS[nth % len(MARKERS)],
        markersize=4,
        color=colour,
        label=wrapped(label),
    )
    if len(values) > 1:
        axes.fill_between(
            x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )


def learning_curves(systems: Systems) -> Figure:
    """Validation perplexity, and BLEU or exact match, after each interval of training."""
    in_words = first_run(systems).in_words
    figure, all_axes = _new(2, 8, 3)
    names = "valid_perplexity", "valid_bleu" if in_words else "valid_exact_match"
    for axes, name in zip(all_axes, names, strict=True):
        for nth, (label, cells) in enumerate(systems.items()):
            runs = [{line["step"]: line[name] for line in cell.journal} for cell in cells]
            steps = sorted(set.intersection(*map(set, runs)))
            _mean_line(axes, steps, [[run[step] for step in steps] for run in runs], label, nth)
        axes.set_xlabel("training step")
    all_axes[0].set(ylabel="validation perplexity", yscale="log")
    all_axes[0].yaxis.set_major_formatter(ScalarFormatter())
    all_axes[0].yaxis.set_minor_formatter(ScalarFormatter())
    if in_words:
        all_axes[1].set(ylabel="validation BLEU")
    else:
        all_axes[1].set(ylabel="validation exact match, %", ylim=(-3, 103))
    _legend(figure, all_axes[1])
    return figure


def quality_by_length(profile: Profile) -> Figure:
    """Two measures by source length. Bahdanau, Cho and Bengio 2014, figure 2."""
    figure, all_axes = _new(2, 8, 3)
    places = range(len(profile.ranges))
    for axes, (name, systems) in zip(all_axes, profile.figures.items(), strict=True):
        for nth, (label, runs) in enumerate(systems.items()):
            _mean_line(axes, places, runs, label, nth)
        axes.set_xticks(places, profile.ranges)
        axes.set(xlabel="source tokens", ylabel=name)
    if "BLEU" not in profile.figures:  # exact match then
        all_axes[0].set_ylim(-3, 103)
    _legend(figure, all_axes[0])
    return figure


def accuracy_by_position(systems: Systems) -> Figure:
    """Right target tokens by the source position that they come from."""
    figure, (axes,) = _new(1, 5, 3)
    for nth, (label, cells) in enumerate(systems.items()):
        runs = [by_position(cell.sentences) for cell in cells]
        _mean_line(axes, range(1, len(runs[0]) + 1), runs, label, nth)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="source position", ylabel="right target tokens, %", ylim=(-3, 103))
    _legend(figure, axes)
    return figure
