"""The outputs of the output layer, computed before anything that reads them.

XLA's CPU backend would fuse their product and the maximum of a softmax into one slower loop. It
costs the memory of the logits, which are written and read once more.
"""

import jax
from jaxtyping import Array, Float

from attn_jax.kernels.products import matmul, plain_product


def logits(
    features: Float[Array, "*any F"], matrix: Float[Array, "F V"], bias: Float[Array, " V"]
) -> Float[Array, "*any V"]:
    """x W + b, in float32 at least whatever the precision of products."""
    return jax.lax.optimization_barrier(matmul(features, matrix)) + bias


def plain_logits(
    features: Float[Array, "*any F"], matrix: Float[Array, "F V"], bias: Float[Array, " V"]
) -> Float[Array, "*any V"]:
    """x W + b, in float32 at least."""
    return plain_product(features, matrix) + bias
