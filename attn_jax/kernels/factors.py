"""Factors of matrix products: their precision and their memory layout.

XLA's CPU backend ignores JAX's setting for the precision of products, and has bfloat16 products
only for factors in row-major layout: elsewhere it computes them in float32. So factors are rounded
and laid out here. It costs a copy of each factor, of half its size.
"""

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array, Float

# The setting of `jax_default_matmul_precision` for bfloat16 factors and sums in float32.
BFLOAT16 = "BF16_BF16_F32"


def rounding() -> bool:
    """Whether JAX is configured for products of bfloat16 factors."""
    return jax.config.jax_default_matmul_precision == BFLOAT16


def row_major(array: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The same array in row-major layout, in which the last axis is contiguous."""
    return with_layout_constraint(array, Layout(major_to_minor=tuple(range(array.ndim))))


def rounded(array: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The same array in bfloat16, in the layout that products need."""
    return row_major(array.astype(jnp.bfloat16))


def factor(array: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """A factor of a product, in the precision for which JAX is configured."""
    return rounded(array) if rounding() else array


def plain_factor(array: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """A factor in the precision for which JAX is configured, in any layout."""
    return array.astype(jnp.bfloat16) if rounding() else array
