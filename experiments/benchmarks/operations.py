"""Code shared by the JAX sides that measure attention operations."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def drawing() -> Callable[..., jax.Array]:
    """A function that draws normal numbers of a shape, in the same sequence in each process."""
    generator = np.random.default_rng(0)

    def drawn(*shape: int) -> jax.Array:
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    return drawn


def repeating(contexts: Callable, inputs: tuple, derivative: bool) -> Callable[[], None]:
    """A function that computes the contexts, or the gradients of the sum of their squares.

    Args:
      contexts: from parameters, queries and annotations to contexts.
      inputs: its arguments, by all of which gradients are taken.
      derivative: whether to compute the gradients.
    """

    def squares(*inputs: jax.Array) -> jax.Array:
        return (contexts(*inputs) ** 2).sum()

    run = jax.jit(jax.grad(squares, argnums=(0, 1, 2)) if derivative else contexts)
    return lambda: jax.block_until_ready(run(*inputs))
