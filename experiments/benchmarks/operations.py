"""What the sides in JAX share that measure attention operations."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def drawing() -> Callable[..., jax.Array]:
    """A function from a shape to normal numbers, others each time and the same in each process."""
    generator = np.random.default_rng(0)

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    return drawn


def repeating(contexts: Callable, inputs: tuple, derivative: bool) -> Callable[[], None]:
    """What computes the contexts of parameters, queries and annotations, or the derivative."""

    def squares(*inputs: jax.Array) -> jax.Array:
        return (contexts(*inputs) ** 2).sum()

    run = jax.jit(jax.grad(squares, argnums=(0, 1, 2)) if derivative else contexts)
    return lambda: jax.block_until_ready(run(*inputs))
