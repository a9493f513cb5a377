"""Figures of quality: over training, by source length and by source position."""

from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, StrMethodFormatter

from attn_jax import config
from attn_jax.records.changes import Change
from attn_jax.reporting.labels import wrapped
from attn_jax.reporting.profiles import Profile, by_position
from attn_jax.reporting.style import COLOURS, SCREEN, Page, Picture, styled
from attn_jax.reporting.systems import Systems, first_run, same_tokens

LINES = "solid", "dashed", "dotted"  # the next one each time that colours repeat
MARKERS = "osv^DX"  # not as many as colours, so that combinations of both repeat late


def _new(count: int, labels: Iterable[str], title: str, page: Page) -> tuple[Picture, np.ndarray]:
    """Axes side by side, with room left for a legend with these labels.

    The legend stands beside them on a screen, and below them on paper, which is narrow.
    """
    lines = [line for label in labels for line in wrapped(label).splitlines()]
    signs = max(map(len, lines))
    legend = (0.6 + 0.085 * signs) * page.scale  # inches: a line with its marker, and text
    across = min(count, page.abreast)
    down = -(-count // across)
    size = 3.5 * across + legend, 3.2 * down
    if page != SCREEN:
        rows = -(-len(lines) // _abreast(page, labels))
        size = page.width, (2.7 * down + 0.19 * rows + 0.3) * page.scale
    figure = Picture(figsize=size, layout="constrained")
    figure.suptitle(title)
    return figure, figure.subplots(down, across, squeeze=False).ravel()


def _abreast(page: Page, labels: Iterable[str]) -> int:
    """How many labels of a legend stand side by side on paper."""
    signs = max(len(line) for label in labels for line in wrapped(label).splitlines())
    return max(1, int(page.width / ((0.7 + 0.085 * signs) * page.scale)))


def _legend(figure: Picture, axes: Axes, page: Page) -> None:
    """Adds a legend outside of the axes, since there may be many lines."""
    handles, labels = axes.get_legend_handles_labels()
    if page == SCREEN:
        figure.legend(handles, labels, loc="outside right upper", frameon=False)
    else:
        count = min(len(labels), _abreast(page, labels))
        figure.legend(handles, labels, loc="outside lower center", ncols=count, frameon=False)


def _mean_line(axes: Axes, lines: Sequence[dict[int, float]], label: str, nth: int) -> None:
    """Draws the mean of the lines of several runs, and their range as a band, where all have one.

    Each line is thinner than the previous one, which stays visible where the two coincide.

    Args:
      axes: where to draw.
      lines: of each run, y by x.
      label: the name of the system.
      nth: its number, from 0.
    """
    x = sorted(set.intersection(*map(set, lines)))
    values = np.array([[line[place] for place in x] for line in lines])
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


def _mark_changes(axes: Axes, changes: Iterable[Change], nth: int) -> None:
    """Draws a line where options of training change, in the colour of a system, and says which."""
    colour = COLOURS[nth % len(COLOURS)]
    for change in changes:
        axes.axvline(change.step, linestyle="dotted", linewidth=1, color=colour)
        where = {"xycoords": ("data", "axes fraction"), "rotation": "vertical", "va": "top"}
        told = config.told(change.after)
        axes.annotate(told, (change.step, 0.98), ha="right", color=colour, size=6, **where)


@styled
def learning_curves(systems: Systems, page: Page = SCREEN) -> Picture:
    """Validation perplexity, if it can be compared, and BLEU or exact match, by training step."""
    in_words = first_run(systems).in_words
    names = ["valid_bleu" if in_words else "valid_exact_match"]
    if same_tokens(systems):
        names.insert(0, "valid_perplexity")
    with mpl.rc_context(page.rc):
        figure, all_axes = _new(len(names), systems, "Learning curves", page)
        for axes, name in zip(all_axes, names, strict=True):
            for nth, (label, runs) in enumerate(systems.items()):
                lines = [{line["step"]: line[name] for line in run.journal} for run in runs]
                _mean_line(axes, lines, label, nth)
                _mark_changes(axes, first_run({label: runs}).changes, nth)
            axes.set_xlabel("training step")
            axes.tick_params(which="both", labelsize=page.font)
        *perplexity, quality = all_axes
        for axes in perplexity:
            axes.set(ylabel="validation perplexity", yscale="log")
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            # Labels between powers of ten: some on an axis of less than 3 decades, all below 0.7.
            axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(3, 0.7)))
            if axes.get_ylim()[0] < 2:  # otherwise nothing between 1 and 2 would be labelled
                axes.set_ylim(bottom=0.97)
        if in_words:
            quality.set(ylabel="validation BLEU")
        else:
            quality.set(ylabel="validation exact match, %", ylim=(-3, 103))
        _legend(figure, quality, page)
    return figure


@styled
def quality_by_length(profile: Profile, page: Page = SCREEN) -> Picture:
    """One or two metrics by source length. Bahdanau, Cho and Bengio 2014, figure 2."""
    labels, places = next(iter(profile.figures.values())), range(len(profile.ranges))
    with mpl.rc_context(page.rc):
        figure, all_axes = _new(len(profile.figures), labels, "Quality by source length", page)
        for axes, (name, systems) in zip(all_axes, profile.figures.items(), strict=True):
            for nth, (label, values) in enumerate(systems.items()):
                _mean_line(axes, [dict(enumerate(of_run)) for of_run in values], label, nth)
            axes.set_xticks(places, profile.ranges, rotation=30)
            axes.set(xlabel="source tokens", ylabel=name)
            axes.tick_params(labelsize=page.font)
        if "BLEU" not in profile.figures:  # then it is exact match
            all_axes[0].set_ylim(-3, 103)
        _legend(figure, all_axes[0], page)
    return figure


@styled
def accuracy_by_position(systems: Systems, page: Page = SCREEN) -> Picture:
    """The percentage of correct target tokens by source position."""
    with mpl.rc_context(page.rc):
        figure, (axes,) = _new(1, systems, "Accuracy by source position", page)
        for nth, (label, runs) in enumerate(systems.items()):
            profiles = (by_position(run.sentences) for run in runs)
            lines = [{place + 1: share for place, share in of_run.items()} for of_run in profiles]
            _mean_line(axes, lines, label, nth)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(xlabel="source position", ylabel="correct target tokens, %", ylim=(-3, 103))
        axes.tick_params(labelsize=page.font)
        _legend(figure, axes, page)
    return figure
