"""Activations whose derivatives need only their values, and a decorator that stores only those.

By default, JAX stores every factor of a derivative: for a gate, twice as many arrays. Writing them
takes longer than recomputing the products. It costs these products a second time.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

_VALUE = "activation"

# Decorates a function: for its derivative, the values of these activations are stored and
# everything else is recomputed.
keeping_values = functools.partial(
    jax.checkpoint,
    policy=jax.checkpoint_policies.save_only_these_names(_VALUE),
    prevent_cse=False,  # preventing it is needed only outside of a scan
)


@jax.custom_jvp
def sigmoid(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """σ(x), computed with tanh, which is faster in XLA's CPU backend."""
    return 0.5 * jnp.tanh(0.5 * x) + 0.5


@sigmoid.defjvp
def _sigmoid_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    y = checkpoint_name(sigmoid(*primals), _VALUE)
    return y, y * (1 - y) * tangents[0]


@jax.custom_jvp
def tanh(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """tanh(x), whose derivative is computed from its value."""
    return jnp.tanh(x)


@tanh.defjvp
def _tanh_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    y = checkpoint_name(jnp.tanh(*primals), _VALUE)
    return y, (1 - y) * (1 + y) * tangents[0]


def plain_sigmoid(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """σ(x) = 1 / (1 + exp(-x))."""
    return jax.nn.sigmoid(x)


def plain_tanh(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The hyperbolic tangent."""
    return jnp.tanh(x)


def plain_keeping_values(function: Callable) -> Callable:
    """The function itself; JAX stores what it wants for the derivative."""
    return function
