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


def test_several_inputs_are_one_side_by_side(generator):
    linear = Linear(6, 7, rngs=nnx.Rngs(0))
    inputs = [jnp.asarray(generator.normal(size=(5, size)), jnp.float32) for size in (3, 1, 2)]
    np.testing.assert_allclose(
        linear(*inputs), linear(jnp.concatenate(inputs, axis=-1)), rtol=1e-5, atol=1e-6
    )


def test_factors_are_rounded_where_the_configuration_asks_for_it(generator):
    linear = Linear(3, 7, use_bias=False, rngs=nnx.Rngs(0))
    inputs = jnp.asarray(generator.normal(size=(2, 5, 3)), jnp.float32)

    def squares(linear, inputs):
        return (linear(inputs) ** 2).sum()

    with jax.default_matmul_precision("BF16_BF16_F32"):
        gradient = jax.jit(jax.grad(squares, argnums=(0, 1)))
        program = gradient.lower(linear, inputs).as_text()
        of_kernel, of_inputs = gradient(linear, inputs)
    products = [line for line in program.splitlines() if "stablehlo.dot_general" in line]
    assert len(products) == 3
    for line in products:
        factors, _, result = line.rpartition("->")
        assert "xf32" in result
        assert factors.rpartition(":")[2].count("xbf16") == 2

    def rounded(array):
        return jnp.asarray(array, jnp.bfloat16).astype(jnp.float32)

    rows, kernel = rounded(inputs).reshape(-1, 3), rounded(linear.kernel[...])
    of_outputs = rounded(2 * rows @ kernel)
    np.testing.assert_allclose(of_kernel.kernel[...], rows.T @ of_outputs, rtol=1e-5, atol=1e-6)
    expected = (of_outputs @ kernel.T).reshape(inputs.shape)
    np.testing.assert_allclose(of_inputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_a_gradient_has_the_type_of_what_it_belongs_to(dtype):
    linear = Linear(3, 7, rngs=nnx.Rngs(0))

    def twice(linear, inputs):
        return (linear(jnp.tanh(inputs)) ** 2).sum() + jnp.tanh(inputs).astype(jnp.float32).sum()

    gradients = jax.grad(twice, argnums=(0, 1))(linear, jnp.ones((2, 3), dtype))
    assert {leaf.dtype for leaf in jax.tree.leaves(gradients[0])} == {jnp.dtype("float32")}
    assert gradients[1].dtype == dtype
