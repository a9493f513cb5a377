"""Figures of quality: over training, by source length and by source position."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, StrMethodFormatter

from attn_jax.report.labels import wrapped
from attn_jax.report.profiles import Profile, by_position
from attn_jax.report.style import COLOURS, styled
from attn_jax.report.systems import Systems, first_run

LINES = "solid", "dashed", "dotted"  # the next where colours begin anew
MARKERS = "osv^DX"  # not as many as colours, so that pairs of them repeat late


def _new(columns: int, width: float, height: float, **options) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, squeeze=False, **options)[0]


def _legend(figure: Figure, axes: Axes) -> None:
    """Names the lines beside the axes, of which there may be many."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False)


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
        linestyle=LINES[nth // len(COLOURS) % len(LINES)],
        marker=MARKERS[nth % len(MARKERS)],
        markersize=4,
        color=colour,
        label=wrapped(label),
    )
    if len(values) > 1:
        axes.fill_between(
            x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )


@styled
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
    all_axes[0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    # As many as have room, over a few decades or less than one.
    all_axes[0].yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(3, 0.7)))
    if in_words:
        all_axes[1].set(ylabel="validation BLEU")
    else:
        all_axes[1].set(ylabel="validation exact match, %", ylim=(-3, 103))
    _legend(figure, all_axes[1])
    return figure


@styled
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


@styled
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
