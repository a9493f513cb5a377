"""Linear maps: their derivative against JAX's own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.models.linear import Linear


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3), (2, 1, 5, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_derivatives_are_those_of_flax(generator, shape, bias):
    ours, flax = (kind(3, 7, use_bias=bias, rngs=nnx.Rngs(0)) for kind in (Linear, nnx.Linear))
    inputs = jnp.asarray(generator.normal(size=shape), jnp.float32)

    def outcome(linear):
        def squares(linear, inputs):
            return (linear(inputs) ** 2).sum()

        return jax.value_and_grad(squares, argnums=(0, 1))(linear, inputs)

    for one, other in zip(
        jax.tree.leaves(outcome(ours)), jax.tree.leaves(outcome(flax)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_products_of_bfloat16_stay_in_it():
    linear = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), Linear(3, 7, rngs=nnx.Rngs(0)))
    inputs = jnp.ones((2, 5, 3), jnp.bfloat16)

    def squares(linear, inputs):
        return (linear(inputs) ** 2).sum()

    program = jax.jit(jax.grad(squares, argnums=(0, 1))).lower(linear, inputs).as_text()
    products = [line for line in program.splitlines() if "dot_general" in line]
    assert len(products) == 3
    assert not any("f32" in line for line in products)
