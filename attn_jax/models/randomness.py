"""Random keys by row: one for each sentence of a batch, [B], from which all its numbers are drawn.

A sentence then draws the same numbers wherever its row is computed: on any device, and in any part
of a batch.
"""

import functools
from typing import overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key


def by_row(rng: Key[Array, ""], rows: int) -> Key[Array, " rows"]:
    """A key for each row of a batch; that of a row does not depend on how many there are."""
    return jax.vmap(jax.random.fold_in, (None, 0))(rng, jnp.arange(rows))


@overload
def split(rng: Key[Array, " B"], count: int) -> list[Key[Array, " B"]]: ...


@overload
def split(rng: None, count: int) -> list[None]: ...


def split(rng: Key[Array, " B"] | None, count: int) -> list[Key[Array, " B"]] | list[None]:
    """Splits the key of each row into `count` keys; without keys, returns None `count` times."""
    return [None] * count if rng is None else list(_stacked(rng, count))


def split_stacked(rng: Key[Array, " B"] | None, count: int) -> Key[Array, "count B"] | None:
    """Splits the key of each row into `count` keys, as one array for `scan` and `vmap`."""
    return None if rng is None else _stacked(rng, count)


def _stacked(rng: Key[Array, " B"], count: int) -> Key[Array, "count B"]:
    return jax.vmap(functools.partial(jax.random.split, num=count), out_axes=1)(rng)
