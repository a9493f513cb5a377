"""The LSTM's own derivatives, against JAX's derivative of the formulas in a scan."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.kernels import lstm

T, B, H = 7, 3, 4


def formulas(memory, inputs):
    i, f, g, o = jnp.split(inputs, 4, axis=-1)
    memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


def plain(matrix, projected, mask, initial, reverse):
    def step(state, inputs):
        projected, real = inputs
        hidden, memory = state
        moved = formulas(memory, projected + hidden @ matrix)
        kept = [jnp.where(real[:, None], new, old) for new, old in zip(moved, state, strict=True)]
        return tuple(kept), kept[0]

    return jax.lax.scan(step, initial, (projected, mask), reverse=reverse)


@pytest.fixture
def given(generator):
    def drawn(*shape):
        return jnp.asarray(generator.normal(size=shape), jnp.float32)

    mask = jnp.asarray(generator.uniform(size=(T, B)) < 0.6)
    return drawn(H, 4 * H), drawn(T, B, 4 * H), mask, (drawn(B, H), drawn(B, H))


def total(run, matrix, projected, mask, initial, reverse):
    (hidden, memory), outputs = run(matrix, projected, mask, initial, reverse)
    weights = jnp.linspace(-1, 1, outputs.size).reshape(outputs.shape)  # each step has its own
    return (hidden**2).sum() + (memory**3).sum() + (weights * outputs).sum()


def gradients(run, matrix, projected, mask, initial, reverse):
    def of(*floats):
        matrix, projected, initial = floats
        return total(run, matrix, projected, mask, initial, reverse)

    return jax.value_and_grad(of, argnums=(0, 1, 2))(matrix, projected, initial)


def same(found, expected):
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_is_a_scan_of_the_formulas(given, reverse):
    same(lstm.layer(*given, reverse), plain(*given, reverse))
    same(gradients(lstm.layer, *given, reverse), gradients(plain, *given, reverse))


@pytest.mark.parametrize("reverse", [False, True])
def test_rounding_its_products_changes_little(given, reverse):
    _, long = gradients(plain, *given, reverse)
    with jax.default_matmul_precision("BF16_BF16_F32"):
        _, short = gradients(lstm.layer, *given, reverse)
    for one, other in zip(jax.tree.leaves(short), jax.tree.leaves(long), strict=True):
        assert one.dtype == jnp.float32
        assert not np.array_equal(one, other)
        assert np.abs(one - other).max() < 0.02 * np.abs(other).max()


def test_gates_are_those_of_the_formulas(given):
    _, projected, _, (_, memory) = given

    def of(run):
        def squares(memory, inputs):
            return sum((part**2).sum() for part in run(memory, inputs))

        return run(memory, projected[0]), jax.grad(squares, argnums=(0, 1))(memory, projected[0])

    same(of(lstm.gates), of(formulas))


def test_layers_side_by_side(given):
    matrix, projected, mask, initial = given
    both = jnp.stack([matrix, -matrix]), jnp.stack([projected, 2 * projected])

    def of(run):
        def one(matrix, projected):
            return gradients(run, matrix, projected, mask, initial, False)

        return jax.vmap(one)(*both)

    same(of(lstm.layer), of(plain))


def test_second_derivatives(given):
    _, projected, mask, initial = given

    def curved(run):
        def of(matrix):
            (hidden, _), outputs = run(matrix, projected, mask, initial, False)
            return (hidden**2).sum() + (outputs**3).sum()

        def row(along):
            return jax.grad(lambda matrix: (jax.grad(of)(matrix) * along).sum())(given[0])

        return jax.vmap(row)(jnp.eye(H * 4 * H).reshape(-1, H, 4 * H)[:5])

    found, expected = curved(lstm.layer), curved(plain)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
