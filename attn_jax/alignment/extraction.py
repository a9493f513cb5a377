"""Links from weights between words, of one direction.

Links are sets of (source, target) positions, counted from 0, without the end of the sentence.
"""

from collections.abc import Callable

import numpy as np

from attn_jax.data.pharaoh import Links
from attn_jax.errors import InputError


def argmax(weights: np.ndarray) -> Links:
    """Links each target word to the source word with the largest weight.

    A target word has no link if at least as much weight is on no source word, as with a null
    normalizer or a window.
    """
    nothing = 1 - weights.sum(axis=1)
    linked = weights.max(axis=1) > nothing
    return {(int(row.argmax()), step) for step, row in enumerate(weights) if linked[step]}


def threshold(weights: np.ndarray, *, least: float = 0.3) -> Links:
    """Links each target word to all source words with a weight of `least` or more, if any.

    Raises:
      InputError: `least` is not above 0 and at most 1.
    """
    if not 0 < least <= 1:
        raise InputError(f"least must be above 0 and at most 1, got {least:g}")
    targets, sources = np.nonzero(weights >= least)
    return set(zip(sources.tolist(), targets.tolist(), strict=True))


EXTRACTIONS: dict[str, Callable[..., Links]] = {"argmax": argmax, "threshold": threshold}
