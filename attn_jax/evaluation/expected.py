"""What the best of several trials is expected to be, from trials that have been made."""

from collections.abc import Sequence

import numpy as np


def expected_best(values: Sequence[float], trials: int, larger_is_better: bool = True) -> float:
    """The expected best of some trials, each drawn with replacement from those that were made.

    Dodge et al. 2019, "Show your work", section 3: the best of n has a value of at most v with the
    probability that a single trial has, to the power of n.

    Args:
      values: of the trials that were made.
      trials: n, how many are drawn.
      larger_is_better: whether the best is the largest.
    """
    ordered = np.sort(values) if larger_is_better else -np.sort(-np.asarray(values))
    at_most = (np.arange(len(ordered) + 1) / len(ordered)) ** trials
    return float(np.diff(at_most) @ ordered)
