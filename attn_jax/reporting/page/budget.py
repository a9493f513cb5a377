"""How much of what is known of runs goes into a page, which people send and open on a phone."""

import dataclasses
from typing import Any

import numpy as np

from attn_jax.errors import InputError
from attn_jax.reporting.page.weights import packed


@dataclasses.dataclass(frozen=True)
class Limits:
    """The most that a page holds.

    Args:
      sentences: of each split, those on which systems differ most.
      systems: how many systems, best first, and the baseline, have all their layers and heads in
        the page; others have the mean.
      megabytes: of all weights; texts and tables come on top, a tenth to a quarter of that.

    Raises:
      InputError: a limit is too low.
    """

    sentences: int = 24
    systems: int = 3
    megabytes: float = 8

    def __post_init__(self):
        for name, least in (("sentences", 1), ("systems", 0), ("megabytes", 0)):
            value = getattr(self, name)
            if not value >= least:
                raise InputError(f"page_{name} must be at least {least}, got {value}")


class Room:
    """The bytes that are left for weights in one page."""

    def __init__(self, limits: Limits):
        self.left = 1e6 * limits.megabytes
        self.left_out = 0  # arrays for which there was no room

    def take(self, weights: np.ndarray) -> dict[str, Any] | None:
        """Packed weights; None if there is no room for them, nor then for any later ones."""
        text = None if self.left_out else packed(weights)
        if text is None or len(text["data"]) > self.left:
            self.left_out += 1
            return None
        self.left -= len(text["data"])
        return text
