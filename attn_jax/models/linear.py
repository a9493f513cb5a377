"""Linear maps, the same as Flax's but for how their derivative is computed."""

import jax
from flax import nnx
from jaxtyping import Array, Float


@jax.custom_vjp
def product(inputs: Float[Array, "*any F"], matrix: Float[Array, "F G"]) -> Float[Array, "*any G"]:
    """x W, whose derivative is one plain product for each factor, over all rows.

    JAX's own contracts several axes at once, which XLA's CPU backend does in float32 and slowly.
    """
    return inputs @ matrix


def _forward(inputs: Array, matrix: Array) -> tuple[Array, tuple[Array, Array]]:
    return inputs @ matrix, (inputs, matrix)


def _backward(given: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    inputs, matrix = given
    rows = inputs.reshape(-1, inputs.shape[-1])
    of_outputs = gradient.reshape(len(rows), -1)
    return (of_outputs @ matrix.T).reshape(inputs.shape), rows.T @ of_outputs


product.defvjp(_forward, _backward)


class Linear(nnx.Linear):
    """y = x W + b."""

    def __call__(self, inputs: Float[Array, "*any F"]) -> Float[Array, "*any G"]:
        """The outputs, in the precision of the parameters."""
        outputs = product(inputs, self.kernel[...])
        return outputs if self.bias is None else outputs + self.bias[...]
