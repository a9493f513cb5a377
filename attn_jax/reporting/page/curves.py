"""The curves of a page: learning, and quality by source length and position, with bands over seeds.

A chart is a table of what is measured (`y`), over one or several axes (`xs`). A line has the places
on each axis, and the mean, lowest and highest value over seeds at each of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.profiles import by_position
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run, runs_of, same_tokens

DIGITS = 5  # significant ones, which is more than a screen shows


def charts(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """All charts of a comparison."""
    systems, profile = comparison.systems, comparison.profile
    if any(len(run.journal) > 1 for run in runs_of(systems)):
        measure = first_run(systems).measure
        told = "BLEU" if measure == "bleu" else "exact match, %"
        yield learning(systems, f"validation {told}", f"valid_{measure}")
        if same_tokens(systems):
            yield learning(systems, "validation perplexity", "valid_perplexity") | {"log": True}
    if profile.tells_more:
        for name, figures in profile.figures.items():
            places = np.arange(len(profile.ranges))
            lines = {label: line([places], values) for label, values in figures.items()}
            axis = {"name": "source tokens", "ticks": profile.ranges}
            yield {"y": f"test {name}, by source length", "xs": [axis], "lines": lines}
    known = {label: runs for label, runs in systems.items() if all(run.has_gold for run in runs)}
    if known:
        lines = {label: positions(runs) for label, runs in known.items()}
        axis = {"name": "source position"}
        yield {
            "y": "correct target tokens, %, by source position",
            "xs": [axis],
            "lines": lines,
        }


def learning(systems: Systems, title: str, name: str) -> dict[str, Any]:
    """A metric of validations over training, at the steps that all seeds of a system reached."""
    lines = {}
    for label, runs in systems.items():
        steps = sorted(set.intersection(*({one["step"] for one in run.journal} for run in runs)))
        by_run = [so_far(run) for run in runs]
        axes = [
            np.mean([[of_run[step][nth] for step in steps] for of_run in by_run], axis=0)
            for nth in range(2)
        ]
        values = [[one[name] for one in run.journal if one["step"] in set(steps)] for run in runs]
        lines[label] = line([steps, *axes], values)
    names = "training steps", "target tokens seen", "seconds of training"
    return {"y": title, "xs": [{"name": one} for one in names], "lines": lines}


def so_far(run: Run) -> dict[int, tuple[float, float]]:
    """The target tokens and the seconds of training until each validation, by its step.

    Both are those of the steps before each validation, at its rates, as in the table of cost.
    """
    steps = [line["step"] for line in run.journal]
    seconds = np.diff(steps, prepend=0) / [line["steps_per_second"] for line in run.journal]
    tokens = seconds * [line["target_tokens_per_second"] for line in run.journal]
    return dict(zip(steps, zip(tokens.cumsum(), seconds.cumsum(), strict=True), strict=True))


def positions(runs: Sequence[Run]) -> dict[str, list]:
    """The share of correct target tokens by source position, from 1, where all runs have one."""
    by_run = [by_position(run.sentences) for run in runs]
    places = sorted(set.intersection(*map(set, by_run)))
    values = [[of_run[place] for place in places] for of_run in by_run]
    return line([np.add(places, 1)], values)


def line(axes: Sequence[Any], values: Any) -> dict[str, list]:
    """A line with its band.

    Args:
      axes: the places on each axis, [X, P].
      values: of each run, [I, P].
    """
    array = np.asarray(values, float)
    band = {"mean": array.mean(axis=0), "low": array.min(axis=0), "high": array.max(axis=0)}
    return {"x": [_rounded(axis) for axis in axes]} | {n: _rounded(v) for n, v in band.items()}


def _rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, float)]
