"""Weighted sums of values, for a batch of sentences and heads.

In a step of `deferral.scan`, their derivative with respect to the values is one product over all
steps, where JAX's own adds to a gradient as large as the values at every step. It costs the
weights and the gradients of the sums of all steps, which are kept for that product.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.kernels.deferral import defer, deferring


def mixture(
    weights: Float[Array, "B K G *T S"], values: Float[Array, "B K S H"]
) -> Float[Array, "B *T K G H"]:
    """Σ_j α_j v_j of all heads and sentences; in a step of `deferral.scan`, deferred."""
    weights = weights.astype(values.dtype)
    if not deferring():
        return plain_mixture(weights, values)
    return defer(_of_weights_alone(weights, values), weights, values, _of_values)


def plain_mixture(
    weights: Float[Array, "B K G *T S"], values: Float[Array, "B K S H"]
) -> Float[Array, "B *T K G H"]:
    """Σ_j α_j v_j of all heads and sentences, of one step or of all, in the dtype of the values."""
    return jnp.einsum("BKG...S,BKSH->B...KGH", weights.astype(values.dtype), values)


@jax.custom_vjp
def _of_weights_alone(weights: Array, values: Array) -> Array:
    return plain_mixture(weights, values)


_of_weights_alone.defvjp(
    lambda weights, values: (plain_mixture(weights, values), values),
    lambda values, gradient: (jnp.einsum("BKGH,BKSH->BKGS", gradient, values), None),
)


def _of_values(weights: Float[Array, "T B K G S"], gradient: Float[Array, "T B K G H"]) -> Array:
    return jnp.einsum("TBKGS,TBKGH->BKSH", weights, gradient)
