"""Final scores of all systems with their intervals, as a forest plot."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from attn_jax.drawing.alignments import SMALLEST
from attn_jax.drawing.style import COLOURS, ONE_COLUMN, SCREEN, Page, Picture, styled, wrapped
from attn_jax.evaluation.significance import FEWEST
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.runs import Run
from attn_jax.reporting.tables import over_seeds

MEASURES = {"bleu": "BLEU", "exact_match": "exact match, %"}
CAPTION = 1.0  # inches below the figure on a page, since it is long
SIGN, LINE = 0.085, 0.155  # inches that text of usual size takes, with what surrounds it
BETWEEN = 0.5  # rows, in lines of text


class Score(NamedTuple):
    """The test score of a system, by the metric of the ranks, and how certain it is."""

    seeds: Sequence[float]
    mean: float
    low: float  # of its 95 %; NaN, as is `high`, if nothing tells how it varies
    high: float

    @property
    def single(self) -> bool:
        """Whether it is of one run, which tells nothing of other seeds: 95 % are over sentences."""
        return len(self.seeds) == 1

    @property
    def text(self) -> str:
        """The mean with its interval."""
        known = "" if np.isnan(self.low) else f" ({self.low:.1f} to {self.high:.1f})"
        return f"{self.mean:.1f}{known}"


class Scale(NamedTuple):
    """An axis that holds all scores and intervals."""

    low: float
    high: float
    ticks: list[float]


Scores = dict[str, Score]  # by system, best first


def scores(comparison: Comparison) -> Scores:
    """The scores of all systems on the test split."""
    by_system = comparison.runs.groupby("system")[comparison.measure]
    found = {}
    for label, (first, *_) in comparison.systems.items():
        seeds = by_system.get_group(label).tolist()
        low, high = over_sentences(first) if len(seeds) == 1 else over_seeds(seeds)
        found[label] = Score(seeds, float(np.mean(seeds)), low, high)
    return found


def over_sentences(run: Run) -> tuple[float, float]:
    """The 95 % of a run over the test sentences, by bootstrap.

    NaN if the sentences are too few for it, or do not differ.
    """
    low, high = np.quantile(run.resampled[1:], (0.025, 0.975))
    if len(run.sentences) < FEWEST or low == high:
        return np.nan, np.nan
    return float(low), float(high)


def about(told: Scores) -> str:
    """What a forest plot shows but for its vertical line."""
    single = {score.single for score in told.values()}
    parts = []
    if False in single:
        parts.append(
            "Filled squares are means over seeds, dots the seeds, and lines the 95 % confidence "
            "intervals of these means (Student): where the mean of many more seeds would be, on "
            "the same test sentences."
        )
    if True in single:
        parts.append(
            "Hollow squares are systems with a single run, and their lines the 95 % confidence "
            "intervals over the test sentences (bootstrap), which do not tell how much other seeds "
            "would differ."
        )
    if any(np.isnan(score.low) for score in told.values()):
        parts.append(
            "No line: seeds that are equal, which do not tell how much others would differ, or a "
            f"single run on fewer than {FEWEST} test sentences, or on ones that are all right or "
            "all wrong."
        )
    parts.append("Whether systems differ is told by p-values, not by whether their lines overlap.")
    return " ".join(parts)


def scale(told: Scores) -> Scale:
    """The axis of a forest plot, with some room where there can be scores."""
    values = np.array([v for score in told.values() for v in (*score.seeds, *score[-2:])])
    low, high = np.nanmin(values), np.nanmax(values)
    room = (high - low) / 20 or 0.5
    low, high = max(low - room, 0), min(high + room, 100)
    found = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    ticks = np.round(found, 6)  # which are whole steps
    return Scale(float(low), float(high), ticks[(low <= ticks) & (ticks <= high)].tolist())


def is_legible(told: Scores, page: Page) -> bool:
    """Whether the names can be read on a page, on which all rows have to fit."""
    names = _names(told, page)
    return page.font * min(1, (page.height - CAPTION) / _height(names, page)) >= SMALLEST


def _names(told: Scores, page: Page) -> list[str]:
    return [wrapped(label, 24 if page == ONE_COLUMN else 44) for label in told]


def _height(names: Sequence[str], page: Page) -> float:
    lines = sum(name.count("\n") + 1 + BETWEEN for name in names)
    return (lines * LINE + 0.6) * page.scale


@styled
def draw(told: Scores, measure: str, page: Page = SCREEN) -> Picture:
    """A row for each system, best first, which ends with its numbers if there is room for them."""
    names, (low, high, ticks) = _names(told, page), scale(told)
    height = _height(names, page)
    most = page.height - CAPTION
    if page != SCREEN and height > most:
        page, height = page._replace(font=page.font * most / height), most
    with mpl.rc_context(page.rc):
        figure = Picture(figsize=(min(7.0, page.width), height), layout="constrained")
        axes = figure.subplots()
        lines = np.array([name.count("\n") + 1 + BETWEEN for name in names])
        places = lines.cumsum() - lines / 2
        axes.axvline(next(iter(told.values())).mean, color="0.6", linewidth=0.8, zorder=0)
        for place, score in zip(places, told.values(), strict=True):
            _row(axes, place, score, page.scale)
        numbers = [score.text for score in told.values()]
        longest = max(len(line) for name in names for line in name.splitlines())
        if SIGN * page.scale * (longest + max(map(len, numbers))) <= page.width * 2 / 3:
            for place, text in zip(places, numbers, strict=True):
                axes.text(1.03, place, text, transform=axes.get_yaxis_transform(), va="center")
        axes.set(xlabel=f"test {MEASURES[measure]}", xlim=(low, high), ylim=(lines.sum(), 0))
        axes.set_xticks(ticks)
        axes.set_yticks(places, names)
        axes.tick_params(labelsize=page.font)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure


def _row(axes: Axes, place: float, score: Score, size: float) -> None:
    """Draws a score: its seeds stand below its interval, which would hide them."""
    colour = COLOURS[0]
    if not np.isnan(score.low):
        axes.hlines(place, score.low, score.high, color=colour, linewidth=1.5 * size)
    if not score.single:
        below = [place + 0.45] * len(score.seeds)
        dots = {"color": COLOURS[1], "markersize": 2.5 * size, "markeredgewidth": 0}
        axes.plot(score.seeds, below, "o", clip_on=False, **dots)
    inside = "white" if score.single else colour
    square = {"markersize": 4.5 * size, "markeredgecolor": colour, "markerfacecolor": inside}
    axes.plot(score.mean, place, "s", clip_on=False, **square)
