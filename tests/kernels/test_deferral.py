"""The scan whose derivative needs one product per matrix, against the derivative of JAX's scan."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.errors import InputError
from attn_jax.kernels.deferral import scan
from attn_jax.kernels.mixture import mixture
from attn_jax.kernels.products import product
from attn_jax.models.linear import Linear
from tests.training.counting import operations

T, B, H, S = 7, 3, 4, 2


def step(outer, inner, shared, values, mask, state, inputs):
    """A cell with products, also in a `vmap` and with one matrix twice, a mixture and a mask."""
    projected, key = inputs
    noise = jax.random.normal(key, (H,))
    hidden = jnp.tanh(projected + outer(state) + product(state, shared) + noise)
    hidden = jax.vmap(inner)(hidden) + product(hidden, shared) ** 2
    weights = jax.nn.softmax(hidden.reshape(B, 2, 1, S) * jnp.arange(1.0, 4.0)[:, None])
    hidden += mixture(weights, values).sum(axis=2).reshape(B, H)
    return jnp.where(mask[:, None], hidden, state), {"state": hidden}


def given(generator):
    def drawn(*shape):
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    keys = jax.random.split(jax.random.key(0), T)
    linears = (Linear(H, H, rngs=nnx.Rngs(seed)) for seed in (1, 2))
    return (
        (*linears, drawn(H, H), drawn(B, 2, S, H // 2), jnp.arange(B) < 2),
        drawn(B, H),
        (drawn(T, B, H), keys),
    )


def plain(parameters, initial, inputs, reverse=False):
    return jax.lax.scan(
        lambda state, inputs: step(*parameters, state, inputs), initial, inputs, reverse=reverse
    )


def deferred(parameters, initial, inputs, reverse=False):
    return scan(step, parameters, initial, inputs, reverse=reverse)


def outcome(unrolled, parameters, initial, inputs, **options):
    *floats, mask = parameters
    projected, keys = inputs

    def total(floats, initial, projected):
        last, shown = unrolled((*floats, mask), initial, (projected, keys), **options)
        return (last**2).sum() + (jnp.arange(T)[:, None, None] * shown["state"]).sum()

    return jax.value_and_grad(total, argnums=(0, 1, 2))(floats, initial, projected)


def same(one, other, rtol=1e-5):
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("precision", ["highest", "BF16_BF16_F32"])  # a GPU would round by itself
def test_value_and_derivative_are_those_of_the_scan(generator, reverse, precision):
    inputs = given(generator)
    with jax.default_matmul_precision(precision):
        value, found = outcome(deferred, *inputs, reverse=reverse)
        expected_value, expected = outcome(plain, *inputs, reverse=reverse)
    same((value, found[:2]), (expected_value, expected[:2]))
    # The gradient of the inputs is stored in the precision of products.
    same(found[2], expected[2], rtol=1e-5 if precision == "highest" else 2**-8)


def test_over_several_at_once(generator):
    parameters, initial, (projected, keys) = given(generator)
    several = jnp.stack([projected, 2 * projected])

    def both(unrolled):
        def one(projected):
            return outcome(unrolled, parameters, initial, (projected, keys))

        return jax.vmap(one)(several)

    same(both(deferred), both(plain))


def test_second_derivatives_are_those_of_the_scan(generator):
    (*floats, mask), initial, (projected, keys) = given(generator)
    flat, unflatten = jax.flatten_util.ravel_pytree(floats)

    def curved(unrolled):
        def total(flat):
            last, _ = unrolled((*unflatten(flat), mask), initial, (projected, keys))
            return (last**2).sum()

        def row(along):
            return jax.grad(lambda flat: jax.grad(total)(flat) @ along)(flat)

        return jax.vmap(row)(jnp.eye(flat.size))

    found, expected = curved(deferred), curved(plain)
    assert np.count_nonzero(expected) > expected.size / 2
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def recurrence(matrix):
    """The sum of the states of the simplest cell, as a function of its matrix."""

    def simple(matrix, state, inputs):
        state = jnp.tanh(product(state, matrix) + inputs)
        return state, state

    return scan(simple, (matrix,), jnp.ones((B, H)), jnp.ones((T, B, H)))[1].sum()


@pytest.mark.parametrize("of", ["state", "inputs"])
def test_matrices_that_differ_from_step_to_step_are_refused(of):
    """The derivative of all steps in one product would leave out what they depend on."""

    def simple(matrix, state, inputs):
        scale = {"state": state, "inputs": inputs}[of].mean()
        state = jnp.tanh(product(state, scale * matrix))
        return state, state

    def total(matrix):
        return scan(simple, (matrix,), jnp.ones((B, H)), jnp.ones((T, B, H)))[1].sum()

    total(jnp.ones((H, H)))
    with pytest.raises(InputError, match="depend on its state or its inputs"):
        jax.grad(total)(jnp.ones((H, H)))


def test_weights_of_all_steps_in_one_product():
    matrix = jnp.ones((H, H))

    def in_scans(function):
        jaxpr = jax.make_jaxpr(function)(matrix).jaxpr
        return str(jaxpr).count("dot_general"), operations(function, matrix)

    one = 2 * B * H * H
    # Forwards and by the inputs in each step, by the matrix over all steps; one in tracing.
    products, count = in_scans(jax.grad(recurrence))
    assert count == 3 * T * one + one
    assert products == 4


def test_gradients_wait_in_the_precision_of_their_product():
    with jax.default_matmul_precision("BF16_BF16_F32"):
        jaxpr = jax.make_jaxpr(jax.grad(recurrence))(jnp.ones((H, H))).jaxpr
    *_, backwards = [equation for equation in jaxpr.eqns if equation.primitive.name == "scan"]
    kept = [out.aval.dtype.name for out in backwards.outvars if out.aval.shape == (T, B, H)]
    assert kept == ["bfloat16", "bfloat16"]  # gradients of the product and of the inputs


def test_sums_of_values_of_all_steps_in_one_product(generator):
    values, queries = jnp.ones((B, 1, S, H)), jnp.ones((T, B, 1, 1, S))

    def total(values):
        def simple(values, state, query):
            return state, mixture(query, values)

        return scan(simple, (values,), (), queries)[1].sum()

    np.testing.assert_allclose(jax.grad(total)(values), np.full((B, 1, S, H), T))
    one = 2 * B * S * H
    # Forwards and by the weights (the queries) in each step, by the values over all steps; one in
    # tracing.
    assert operations(jax.grad(total), values) == 3 * T * one + one


def test_sizes_are_as_given(generator):
    parameters, initial, inputs = given(generator)
    last, shown = deferred(parameters, initial, inputs)
    assert last.shape == (B, H)
    assert shown["state"].shape == (T, B, H)
