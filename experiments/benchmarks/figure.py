"""The figure of a group of benchmarks: times of all sides relative to this project's."""

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.ticker import FormatStrFormatter

from attn_jax.reporting.style import COLOURS, Picture


def relative_times(cases: Mapping[str, Mapping[str, Sequence[float]]]) -> Picture:
    """The median times of all sides, and their ranges, in units of the first side's median.

    Args:
      cases: the seconds of each side's repetitions, by case and side.
    """
    sides = list(dict.fromkeys(side for case in cases.values() for side in case))
    figure = Picture(figsize=(7, 1 + 0.3 * len(cases)), layout="constrained")
    axes = figure.subplots()
    for row, case in enumerate(cases.values()):
        unit = statistics.median(next(iter(case.values())))
        for side, seconds in case.items():
            nth = sides.index(side)
            colour, height = COLOURS[nth], row + 0.6 * ((nth + 0.5) / len(sides) - 0.5)
            ends = [min(seconds) / unit, max(seconds) / unit]
            axes.plot(ends, [height, height], color=colour, lw=1)
            axes.plot(statistics.median(seconds) / unit, height, "o", color=colour, ms=4)
    for side, colour in zip(sides, COLOURS, strict=False):
        axes.plot([], [], "o", color=colour, ms=4, label=side)
    axes.axvline(1, color="0.8", lw=1, zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(FormatStrFormatter("%g"))
    axes.set_xlabel(f"time, in units of the median of {sides[0]}")
    axes.set_yticks(range(len(cases)), list(cases))
    axes.invert_yaxis()
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(sides), frameon=False)
    return figure
