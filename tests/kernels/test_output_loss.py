"""The output layer with its loss: against the cross-entropy of all logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.kernels import output_loss as output
from attn_jax.kernels.memory import Held
from attn_jax.kernels.output_loss import cross_entropy, output_loss

N, F, V = 14, 3, 11


def given(generator, rows=N, words=V):
    matrix, bias, features = (
        jnp.asarray(generator.normal(size=shape), jnp.float32)
        for shape in [(F, words), (words,), (rows, F)]
    )
    targets = jnp.asarray(generator.integers(0, words, rows))
    return (matrix, bias, features), (targets, jnp.arange(rows) % 5 > 0)


def plain(matrix, bias, features, targets, counted, smoothing):
    return cross_entropy(features @ matrix + bias, targets, smoothing).sum(where=counted)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_a_loop(generator, smoothing):
    logits, targets = generator.normal(size=(3, 5, 7)), generator.integers(0, 7, (3, 5))
    actual = cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(targets), smoothing)
    for index in np.ndindex(3, 5):
        p = np.exp(logits[index]) / np.exp(logits[index]).sum()
        q = np.full(7, smoothing / 7)
        q[targets[index]] += 1 - smoothing
        np.testing.assert_allclose(actual[index], -(q * np.log(p)).sum(), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows_at_once", [1, 5, 7, 14, 50])
def test_equals_the_loss_of_all_logits(generator, monkeypatch, rows_at_once, smoothing):
    monkeypatch.setattr(output, "LOGITS", Held(cpu=rows_at_once * V, other=0))
    floats, others = given(generator)

    def doubled(function):  # a factor, since the sum is usually not the final loss
        def of(*floats):
            return 2 * function(*floats, *others, smoothing)

        return jax.value_and_grad(of, argnums=(0, 1, 2))(*floats)

    whole, parts = doubled(plain), doubled(output_loss)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    alone = output_loss(*floats, *others, smoothing)
    np.testing.assert_allclose(alone, whole[0] / 2, rtol=1e-6)


def test_what_is_held_does_not_grow_with_the_tokens(generator, monkeypatch):
    words, size = 1000, 16
    monkeypatch.setattr(output, "LOGITS", Held(cpu=size * words, other=0))

    def held(rows):
        floats, others = given(generator, rows, words)
        gradient = jax.jit(jax.grad(lambda *f: output_loss(*f, *others, 0.1), argnums=(0, 1, 2)))
        return gradient.lower(*floats).compile().memory_analysis().temp_size_in_bytes

    assert held(20 * size) - held(2 * size) < 4 * size * words


def test_a_part_has_as_many_tokens_as_features(generator, monkeypatch):
    monkeypatch.setattr(output, "LOGITS", Held(cpu=1, other=0))
    floats, others = given(generator)
    jaxpr = jax.make_jaxpr(jax.grad(lambda *f: output_loss(*f, *others, 0.1)))(*floats)
    assert f"length={-(-N // F)}" in str(jaxpr)


def test_gradients_of_rounded_factors_are_those_of_float32_but_for_rounding(generator):
    floats, others = given(generator)

    def gradient():
        return jax.grad(lambda *f: output_loss(*f, *others, 0.1), argnums=(0, 1, 2))(*floats)

    long = gradient()
    with jax.default_matmul_precision("BF16_BF16_F32"):
        short = gradient()
    for one, other in zip(short, long, strict=True):
        assert one.dtype == jnp.float32
        assert not np.array_equal(one, other)
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)


def test_rounded_factors_may_come_from_a_transposed_matrix(generator):
    """As tied embeddings do, whose output matrix is the transposed table."""
    (matrix, bias, features), others = given(generator)

    def loss(table, bias, features):
        return output_loss(table.T, bias, features, *others, 0.1)

    def gradient():
        return jax.jit(jax.grad(loss))(matrix.T, bias, features)

    with jax.default_matmul_precision("BF16_BF16_F32"):
        short = gradient()
    np.testing.assert_allclose(short, gradient(), rtol=0.02, atol=0.02)
