"""How many numbers to hold at once, where parts of any size give the same result.

A CPU is fast while they fit its caches. A GPU or TPU is slow if it computes them in many small
operations, one after another, and has memory for more.
"""

from typing import NamedTuple

import jax


class Held(NamedTuple):
    """Numbers held at once, by device."""

    cpu: int
    other: int

    def here(self) -> int:
        """On JAX's default device, which starts JAX."""
        return self.cpu if jax.default_backend() == "cpu" else self.other
