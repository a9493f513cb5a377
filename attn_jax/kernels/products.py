"""Products of vectors and a matrix, with a derivative of one plain product for each factor.

JAX's own derivative contracts several axes at once, which XLA's CPU backend does in float32 and
slowly. Factors are rounded where JAX is configured for that, see `factors`; sums and results are in
float32 at least. It costs forward mode; in a step of `deferral.scan`, also the inputs and the
gradients of the outputs of all steps.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.kernels.deferral import defer, deferring
from attn_jax.kernels.factors import factor, plain_factor, rounded, row_major


def matmul(inputs: Float[Array, "*any F"], matrix: Float[Array, "F G"]) -> Float[Array, "*any G"]:
    """x W, with sums in float32 at least."""
    wide = jnp.promote_types(inputs.dtype, jnp.float32)
    return jnp.matmul(factor(inputs), factor(matrix), preferred_element_type=wide)


def product(inputs: Float[Array, "*any F"], matrix: Float[Array, "F G"]) -> Float[Array, "*any G"]:
    """x W, whose derivative is one plain matrix product for each factor, over all rows.

    In a step of `deferral.scan`, the derivative with respect to the matrix is deferred.
    """
    # Widened here, so that JAX casts each gradient to the dtype of its argument.
    wide = jnp.promote_types(jnp.result_type(inputs, matrix), jnp.float32)
    inputs, matrix = inputs.astype(wide), matrix.astype(wide)
    if not deferring():
        return _product(inputs, matrix)
    return defer(_of_inputs_alone(inputs, matrix), factor(inputs), matrix, of_matrix)


def plain_product(
    inputs: Float[Array, "*any F"], matrix: Float[Array, "F G"]
) -> Float[Array, "*any G"]:
    """x W, with sums in float32 at least."""
    wide = jnp.promote_types(jnp.result_type(inputs, matrix), jnp.float32)
    return jnp.matmul(plain_factor(inputs), plain_factor(matrix), preferred_element_type=wide)


def of_inputs(gradient: Float[Array, "*any G"], matrix: Float[Array, "F G"]) -> Array:
    """The gradient of the inputs of a product."""
    wide = jnp.promote_types(gradient.dtype, jnp.float32)
    if matrix.dtype == jnp.bfloat16:
        gradient = rounded(gradient)
    return jnp.einsum("...G,FG->...F", gradient, matrix, preferred_element_type=wide)


def of_matrix(inputs: Float[Array, "*any F"], gradient: Float[Array, "*any G"]) -> Array:
    """The gradient of the matrix of a product."""
    wide = jnp.promote_types(gradient.dtype, jnp.float32)
    rows = inputs.reshape(-1, inputs.shape[-1])
    columns, of_outputs = rows.T, gradient.reshape(len(rows), -1)
    if inputs.dtype == jnp.bfloat16:
        # Not in float32, where a product with a transposed factor takes less time than a copy.
        columns, of_outputs = row_major(columns), rounded(of_outputs)
    return jnp.matmul(columns, of_outputs, preferred_element_type=wide)


@jax.custom_vjp
def _product(inputs: Array, matrix: Array) -> Array:
    return matmul(inputs, matrix)


_product.defvjp(
    lambda inputs, matrix: (matmul(inputs, matrix), (factor(inputs), factor(matrix))),
    lambda factors, gradient: (of_inputs(gradient, factors[1]), of_matrix(factors[0], gradient)),
)


# Not `stop_gradient` of the matrix: second derivatives go through it.
@jax.custom_vjp
def _of_inputs_alone(inputs: Array, matrix: Array) -> Array:
    return matmul(inputs, matrix)


_of_inputs_alone.defvjp(
    lambda inputs, matrix: (matmul(inputs, matrix), factor(matrix)),
    lambda matrix, gradient: (of_inputs(gradient, matrix), None),
)
