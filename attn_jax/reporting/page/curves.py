"""The curves of a page, with bands over seeds."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.curves import Line, learning, lengths, positions

DIGITS = 5  # significant ones, which is more than a screen shows


def charts(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """All charts of a comparison, as `curves.js` reads them."""
    systems = comparison.systems
    for chart in chain(learning(systems), lengths(comparison.profile), positions(systems)):
        ticks = {"ticks": chart.ticks} if chart.ticks else {}
        told = {
            "y": chart.told,
            "xs": [{"name": name} | ticks for name in chart.xs],
            "lines": {label: banded(line) for label, line in chart.lines.items()},
        }
        yield told | ({"log": True} if chart.y.endswith("perplexity") else {})


def banded(line: Line) -> dict[str, list]:
    """The places of a line, and the mean, lowest and highest value over seeds at each of them."""
    values = line.values
    band = {"mean": values.mean(axis=0), "low": values.min(axis=0), "high": values.max(axis=0)}
    return {"x": list(map(_rounded, line.xs))} | {name: _rounded(v) for name, v in band.items()}


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]
