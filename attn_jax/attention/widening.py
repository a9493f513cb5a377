"""The precision in which parts of a mechanism compute, whatever that of their inputs."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def widen(numbers: Float[Array, "..."]) -> Float[Array, "..."]:
    """The numbers, in float32 at least."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))
