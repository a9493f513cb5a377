"""Activations whose derivatives need only their values, and a decorator that keeps only those.

JAX keeps each factor of a derivative, which for a gate is twice as many arrays; writing these takes
longer than multiplying again.
"""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

_VALUE = "activation"

# Decorates a function, whose derivative then finds its activations kept and makes all else again.
keeping_values = functools.partial(
    jax.checkpoint,
    policy=jax.checkpoint_policies.save_only_these_names(_VALUE),
    prevent_cse=False,  # which is for what stands outside of a scan
)


@jax.custom_jvp
def sigmoid(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """1 / (1 + exp(-x)), by the tanh that XLA's CPU backend computes in less time."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


@sigmoid.defjvp
def _sigmoid_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    y = checkpoint_name(sigmoid(*primals), _VALUE)
    return y, y * (1 - y) * tangents[0]


@jax.custom_jvp
def tanh(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The hyperbolic tangent."""
    return jnp.tanh(x)


@tanh.defjvp
def _tanh_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    y = checkpoint_name(jnp.tanh(*primals), _VALUE)
    return y, (1 - y) * (1 + y) * tangents[0]
