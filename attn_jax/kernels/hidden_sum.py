"""The sum over hidden units that ends an additive score, apart from the computation of the units.

In a loop, XLA's CPU backend runs a plain product, or units and sum fused, on one core or slowly. It
costs the memory of the units of one query, [S, A]. Its derivative has a rule for both modes.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def hidden_sum(hidden: Float[Array, "S A"], v: Float[Array, " A"]) -> Float[Array, " S"]:
    """H v, the scores of hidden units H, in float32 at least."""
    return _total(jax.lax.optimization_barrier(hidden) * v)


def plain_hidden_sum(hidden: Float[Array, "S A"], v: Float[Array, " A"]) -> Float[Array, " S"]:
    """H v, in float32 at least."""
    wide = jnp.promote_types(jnp.result_type(hidden, v), jnp.float32)
    return jnp.matmul(hidden, v, preferred_element_type=wide)


def _total(terms: Float[Array, "S A"]) -> Float[Array, " S"]:
    return terms.sum(axis=-1, dtype=jnp.promote_types(terms.dtype, jnp.float32))


@hidden_sum.defjvp
def _hidden_sum_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (hidden, v), (of_hidden, of_v) = primals, tangents
    return hidden_sum(hidden, v), _total(of_hidden * v) + hidden @ of_v
