"""How far all systems of a comparison are from each other, and how certain that is."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from attn_jax.evaluation.significance import FEWEST, bootstrapped, holm
from attn_jax.reporting.counted import resampled
from attn_jax.reporting.ranking import p_value, paired
from attn_jax.reporting.systems import Systems, first_run

ABOUT = (
    "The difference is that of the seeds that both systems have (of their first runs, if there are "
    "none). Its 95 % are over the test sentences (bootstrap), and so do not tell how much other "
    "seeds would differ. So is p, except that of exact match, which is of approximate "
    "randomisation. Holm: p-values adjusted for the comparison of all systems with one baseline, "
    "so that at most 5 % of such tables have any false difference below 0.05."
)


class Differences(NamedTuple):
    """Of each system (columns) from each baseline (rows), in a metric, [K, K].

    NaN on the diagonal, and where there are too few sentences.
    """

    difference: np.ndarray
    low: np.ndarray  # of its 95 % over test sentences
    high: np.ndarray
    p: np.ndarray
    holm: np.ndarray  # p-values adjusted over each row


def differences(systems: Systems) -> dict[str, Differences]:
    """All differences between systems by each metric, first by that of the ranks."""
    return {name: _by_metric(systems, name, values) for name, values in resampled(systems)}


def of_ranks(systems: Systems) -> Differences:
    """All differences between systems by the metric of the ranks."""
    return _by_metric(systems, *next(resampled(systems)))


def _by_metric(systems: Systems, name: str, values: dict[Path, np.ndarray]) -> Differences:
    """All differences in one metric.

    Args:
      systems: the systems.
      name: of the metric.
      values: of each run, by its folder, on the test set and on samples of it.
    """
    all_runs, first = list(systems.values()), first_run(systems)
    difference, low, high, p = np.full((4, len(all_runs), len(all_runs)), np.nan)
    for baseline, theirs in enumerate(all_runs):
        for place in range(baseline + 1, len(all_runs)):
            ours, others = paired(all_runs[place], theirs)
            sampled = np.mean(
                [
                    values[run.folder] - values[other.folder]
                    for run, other in zip(ours, others, strict=True)
                ],
                axis=0,
            )
            there, back = (baseline, place), (place, baseline)
            difference[there], difference[back] = sampled[0], -sampled[0]
            count = len(first.sentences)
            of_ranks = name == first.measure
            p[there] = p[back] = p_value(ours, others) if of_ranks else bootstrapped(sampled, count)
            if count >= FEWEST:
                low[there], high[there] = np.quantile(sampled[1:], (0.025, 0.975))
                low[back], high[back] = -high[there], -low[there]
    return Differences(difference, low, high, p, np.array([holm(row) for row in p]))
