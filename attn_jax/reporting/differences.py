"""How far all systems of a comparison are from each other, and how certain that is."""

from typing import NamedTuple

import numpy as np

from attn_jax.evaluation.significance import FEWEST, holm
from attn_jax.reporting.ranking import p_value, paired
from attn_jax.reporting.systems import Systems

ABOUT = (
    "The difference is that of the seeds that both systems have (of their first runs, if there are "
    "none). Its 95 % are over the test sentences (bootstrap), and so do not tell how much other "
    "seeds would differ. Holm: p-values adjusted for the comparison of all systems with one "
    "baseline, so that at most 5 % of such tables have any false difference below 0.05."
)


class Differences(NamedTuple):
    """Of each system (columns) from each baseline (rows), in BLEU or exact match, [K, K].

    NaN on the diagonal, and where there are too few sentences.
    """

    difference: np.ndarray
    low: np.ndarray  # of its 95 % over test sentences
    high: np.ndarray
    p: np.ndarray
    holm: np.ndarray  # p-values adjusted over each row


def differences(systems: Systems) -> Differences:
    """All differences between systems, in the metric by which they are ranked."""
    all_runs = list(systems.values())
    difference, low, high, p = np.full((4, len(all_runs), len(all_runs)), np.nan)
    for baseline, theirs in enumerate(all_runs):
        for place in range(baseline + 1, len(all_runs)):
            ours, others = paired(all_runs[place], theirs)
            sampled = np.mean(
                [run.resampled - other.resampled for run, other in zip(ours, others, strict=True)],
                axis=0,
            )
            there, back = (baseline, place), (place, baseline)
            difference[there], difference[back] = sampled[0], -sampled[0]
            p[there] = p[back] = p_value(ours, others)
            if len(ours[0].sentences) >= FEWEST:
                low[there], high[there] = np.quantile(sampled[1:], (0.025, 0.975))
                low[back], high[back] = -high[there], -low[there]
    return Differences(difference, low, high, p, np.array([holm(row) for row in p]))
