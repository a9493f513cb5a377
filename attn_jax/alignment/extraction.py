"""Links from weights between words, of one direction.

Links are sets of (source, target) positions, counted from 0, without the end of the sentence.
"""

import numpy as np

from attn_jax.data.alignment_files import Links
from attn_jax.settings.value import Value, setting


class Extraction(Value):
    """A way to make links from weights."""

    name = "way to make links"

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        raise NotImplementedError


class Argmax(Extraction):
    """Links each target word to the source word with the largest weight.

    A target word has no link if at least as much weight is on no source word, as with a null
    normalizer or a window.
    """

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        nothing = 1 - weights.sum(axis=1)
        linked = weights.max(axis=1) > nothing
        return {(int(row.argmax()), step) for step, row in enumerate(weights) if linked[step]}


class Threshold(Extraction):
    """Links each target word to all source words with a weight of `least` or more, if any."""

    least: float = setting(0.3, above=0, high=1)

    def __call__(self, weights: np.ndarray) -> Links:
        """The links, from weights [T, S]."""
        targets, sources = np.nonzero(weights >= self.least)
        return set(zip(sources.tolist(), targets.tolist(), strict=True))


EXTRACTIONS: dict[str, type[Extraction]] = {one.name: one for one in (Argmax, Threshold)}
