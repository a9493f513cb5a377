"""Curves of quality: over training, by source length and by source position.

`report.html` has the same ones as the figures.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, StrMethodFormatter

from attn_jax import config
from attn_jax.drawing.style import COLOURS, SCREEN, Page, Picture, styled, wrapped
from attn_jax.records.changes import Change
from attn_jax.reporting.profiles import Profile, by_position
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run, runs_of, same_tokens, trained

LINES = "solid", "dashed", "dotted"  # the next one each time that colours repeat
MARKERS = "osv^DX"  # not as many as colours, so that combinations of both repeat late


class Line(NamedTuple):
    """What is drawn of a system."""

    xs: Sequence[np.ndarray]  # the places on each of the axes that the chart may have, [P]
    values: np.ndarray  # of each run, [I, P]
    changes: Sequence[Change] = ()  # of its options, if the first axis is of steps


class Chart(NamedTuple):
    """What is measured, over one or several axes."""

    y: str
    xs: Sequence[str]  # the names of the axes
    lines: dict[str, Line]  # by system
    told: str  # `y`, with what distinguishes it from those of other charts
    ticks: Sequence[str] = ()  # the names of places, if they are no numbers


def learning(systems: Systems) -> Iterator[Chart]:
    """BLEU or exact match, and perplexity if it can be compared, of validations over training.

    They are at the steps that all seeds of a system reached.
    """
    systems = trained(systems)
    if all(len(run.journal) == 1 for run in runs_of(systems)):
        return
    measure = first_run(systems).measure
    names = {f"valid_{measure}": "BLEU" if measure == "bleu" else "exact match, %"}
    if same_tokens(systems):
        names["valid_perplexity"] = "perplexity"
    axes = "training steps", "target tokens seen", "seconds of training"
    for name, title in names.items():
        y = f"validation {title}"
        yield Chart(y, axes, {label: _line(runs, name) for label, runs in systems.items()}, y)


def _line(runs: Sequence[Run], name: str) -> Line:
    steps = sorted(set.intersection(*({one["step"] for one in run.journal} for run in runs)))
    by_run = [_so_far(run) for run in runs]
    so_far = np.mean([[of_run[step] for step in steps] for of_run in by_run], axis=0)
    values = [[one[name] for one in run.journal if one["step"] in {*steps}] for run in runs]
    return Line([np.array(steps), *so_far.T], np.array(values, float), runs[0].changes)


def _so_far(run: Run) -> dict[int, tuple[float, float]]:
    """The target tokens and the seconds of training until each validation, by its step.

    Both are those of the steps before each validation, at its rates, as in the table of cost.
    """
    steps = [line["step"] for line in run.journal]
    seconds = np.diff(steps, prepend=0) / [line["steps_per_second"] for line in run.journal]
    tokens = seconds * [line["target_tokens_per_second"] for line in run.journal]
    return dict(zip(steps, zip(tokens.cumsum(), seconds.cumsum(), strict=True), strict=True))


def lengths(profile: Profile) -> Iterator[Chart]:
    """One or two metrics by source length. Bahdanau, Cho and Bengio 2014, figure 2."""
    for name, figures in profile.figures.items() if profile.tells_more else ():
        places = np.arange(len(profile.ranges))
        lines = {label: Line([places], values) for label, values in figures.items()}
        told = f"test {name}, by source length"
        yield Chart(name, ["source tokens"], lines, told, profile.ranges)


def positions(systems: Systems) -> Iterator[Chart]:
    """The share of correct target tokens by source position, of systems with gold alignments."""
    lines = {}
    for label, runs in systems.items():
        if all(run.has_gold for run in runs):
            by_run = [by_position(run.sentences) for run in runs]
            places = sorted(set.intersection(*map(set, by_run)))
            values = [[of_run[place] for place in places] for of_run in by_run]
            lines[label] = Line([np.add(places, 1)], np.array(values))
    if lines:
        y = "correct target tokens, %"
        yield Chart(y, ["source position"], lines, f"{y}, by source position")


@styled
def draw(title: str, charts: Sequence[Chart], page: Page = SCREEN) -> Picture:
    """Charts side by side, each over the first of its axes."""
    with mpl.rc_context(page.rc):
        figure, all_axes = _new(len(charts), charts[0].lines, title, page)
        for axes, chart in zip(all_axes, charts, strict=False):
            for nth, (label, line) in enumerate(chart.lines.items()):
                _mean_line(axes, line, label, nth)
                _mark_changes(axes, line.changes, nth)
            axes.set(xlabel=chart.xs[0], ylabel=chart.y)
            axes.tick_params(which="both", labelsize=page.font)
            if chart.ticks:
                axes.set_xticks(range(len(chart.ticks)), chart.ticks, rotation=30)
            else:
                axes.xaxis.get_major_locator().set_params(integer=True)
            if chart.y.endswith("perplexity"):
                _make_logarithmic(axes)
            elif "%" in chart.y and "error" not in chart.y:
                axes.set_ylim(-3, 103)
        _legend(figure, all_axes[0], page)
    return figure


def _make_logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    # Labels between powers of ten: some on an axis of less than 3 decades, all below 0.7.
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(3, 0.7)))
    if axes.get_ylim()[0] < 2:  # otherwise nothing between 1 and 2 would be labelled
        axes.set_ylim(bottom=0.97)


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


def _mean_line(axes: Axes, line: Line, label: str, nth: int) -> None:
    """Draws the mean over runs, and their range as a band.

    Each line is thinner than the previous one, which stays visible where the two coincide.

    Args:
      axes: where to draw.
      line: of the system.
      label: its name.
      nth: its number, from 0.
    """
    x, values = line.xs[0], line.values
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
