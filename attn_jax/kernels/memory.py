"""How many numbers to hold at once, where parts of any size give the same result.

A CPU is fast while they fit its caches. A GPU or TPU is slow if it computes them in many small
operations, one after another, and has memory for more.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree


class Held(NamedTuple):
    """Numbers held at once, by device."""

    cpu: int
    other: int

    def here(self) -> int:
        """On JAX's default device, which starts JAX."""
        return self.cpu if jax.default_backend() == "cpu" else self.other


def by_parts(function: Callable[[PyTree], PyTree], steps: PyTree, most: int) -> PyTree:
    """A function of steps, leaves [B, T, ...] in and out, of some steps after others.

    Args:
      function: whose results of a step do not depend on other steps.
      steps: all T steps; numbers, not random keys.
      most: steps that are computed at once, at least 1. Parts are of equal size, and the last one
        is padded.
    """
    length = jax.tree.leaves(steps)[0].shape[1]
    parts = -(-length // max(most, 1))
    size = -(-length // parts)
    if parts == 1:
        return function(steps)

    def cut(leaf: Array) -> Array:
        lacking = [(0, 0), (0, parts * size - length)] + [(0, 0)] * (leaf.ndim - 2)
        padded = jnp.pad(leaf, lacking)
        return jnp.swapaxes(padded.reshape(len(leaf), parts, size, *leaf.shape[2:]), 0, 1)

    def join(leaf: Array) -> Array:
        by_row = jnp.swapaxes(leaf, 0, 1)
        return by_row.reshape(len(by_row), parts * size, *leaf.shape[3:])[:, :length]

    return jax.tree.map(join, jax.lax.map(function, jax.tree.map(cut, steps)))


def recomputed(function: Callable) -> Callable:
    """The same function, of which only the arguments are stored for the derivative."""
    return jax.checkpoint(function)


def plain_recomputed(function: Callable) -> Callable:
    """The function itself; JAX stores what it wants for the derivative."""
    return function
