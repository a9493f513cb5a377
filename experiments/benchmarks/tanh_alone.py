"""Only the hyperbolic tangents that additive attention needs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from .side import serve


def prepare(
    operation: str,
    batch: int,
    source_length: int,
    target_length: int,
    size: int,
    derivative: bool,
) -> Callable[[], None]:
    """Prepares B T S A tangents, query by query; twice for a derivative, which recomputes them."""
    keys = jnp.ones((batch, source_length, size))
    times = target_length * (2 if derivative else 1)

    @jax.jit
    def tangents(keys: jax.Array) -> jax.Array:
        def again(values: jax.Array, _: None) -> tuple[jax.Array, None]:
            return jnp.tanh(values), None

        return jax.lax.scan(again, keys, None, length=times)[0]

    def repeat() -> None:
        jax.block_until_ready(tangents(keys))

    return repeat


if __name__ == "__main__":
    serve(prepare)
