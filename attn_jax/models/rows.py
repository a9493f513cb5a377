"""Rows that hold two sentences, one behind the other, and then padding."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped


def to_front(rows: Shaped[Array, "B S ..."], lengths: Int[Array, " B"]) -> Shaped[Array, "B S ..."]:
    """Rows without their first sentence, of these lengths, which goes to the end."""
    return jax.vmap(lambda row, length: jnp.roll(row, -length, axis=0))(rows, lengths)


def behind(rows: Shaped[Array, "B S ..."], lengths: Int[Array, " B"]) -> Shaped[Array, "B S ..."]:
    """Rows that begin only after so many positions; what is at their end goes to the front."""
    return jax.vmap(lambda row, length: jnp.roll(row, length, axis=0))(rows, lengths)
