"""Weighted sums of values, for a batch of sentences and heads."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.models.deferral import defer, deferring


def mixture(
    weights: Float[Array, "B K G S"], values: Float[Array, "B K S H"]
) -> Float[Array, "B K G H"]:
    """The contexts of all heads and sentences, each as `attention.context.context` computes it.

    In a step of `deferral.scan`, the derivative with respect to the values is deferred.
    """
    weights = weights.astype(values.dtype)
    if not deferring():
        return _mixture(weights, values)
    return defer(_of_weights_alone(weights, values), weights, values, _of_values)


def _mixture(weights: Array, values: Array) -> Array:
    return jnp.einsum("BKGS,BKSH->BKGH", weights, values)


@jax.custom_vjp
def _of_weights_alone(weights: Array, values: Array) -> Array:
    return _mixture(weights, values)


_of_weights_alone.defvjp(
    lambda weights, values: (_mixture(weights, values), values),
    lambda values, gradient: (jnp.einsum("BKGH,BKSH->BKGS", gradient, values), None),
)


def _of_values(weights: Float[Array, "T B K G S"], gradient: Float[Array, "T B K G H"]) -> Array:
    return jnp.einsum("TBKGS,TBKGH->BKSH", weights, gradient)
