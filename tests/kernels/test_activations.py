"""Activations against JAX's own, and the values that their derivatives keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.kernels.activations import keeping_values, sigmoid, tanh

X = jnp.linspace(-4, 4, 9)


@pytest.mark.parametrize(("own", "plain"), [(sigmoid, jax.nn.sigmoid), (tanh, jnp.tanh)])
def test_values_and_derivatives(own, plain):
    for _ in range(3):  # the second derivative too
        np.testing.assert_allclose(jax.vmap(own)(X), jax.vmap(plain)(X), rtol=1e-5, atol=1e-7)
        own, plain = jax.grad(own), jax.grad(plain)


def gate(x, y):
    return (1 - sigmoid(x + y)) * tanh(x * y) + sigmoid(x + y) * y


def test_of_a_function_the_activations_are_kept_alone():
    def kept(function):
        _, pull = jax.vjp(function, X, X + 1)
        return sum(leaf.shape == X.shape for leaf in jax.tree.leaves(pull))

    assert kept(gate) > 5
    assert kept(keeping_values(gate)) == 5  # the inputs and the outputs of three activations
    for argument in (0, 1):
        whole, part = (
            jax.grad(lambda x, y, f=f: f(x, y).sum(), argnums=argument)(X, X + 1)
            for f in (gate, keeping_values(gate))
        )
        np.testing.assert_allclose(whole, part, rtol=1e-6)
