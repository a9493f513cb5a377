"""Attention of one query over one sentence."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import SCORES, InputError, attend, attend_all
from attn_jax.attention.normalizers import softmax

S, Q, D, B = 7, 5, 11, 3


def inputs(generator, dtype=np.float32):
    return (
        jnp.asarray(generator.normal(size=Q), dtype),
        jnp.asarray(generator.normal(size=(S, Q)), dtype),
        jnp.asarray(generator.normal(size=(S, D)), dtype),
    )


def test_equals_a_loop_in_float64(generator):
    query, keys, values = inputs(generator)
    mask = np.array([True, False, True, True, False, True, False])
    energies = [np.exp(float(np.dot(np.float64(query), np.float64(k)))) for k in keys]
    total = sum(e for e, real in zip(energies, mask, strict=True) if real)
    expected = [e / total if real else 0.0 for e, real in zip(energies, mask, strict=True)]
    context, weights = attend(query, keys, values, jnp.asarray(mask), score="dot")
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)
    read = sum(w * np.float64(v) for w, v in zip(expected, values, strict=True))
    np.testing.assert_allclose(context, read, rtol=1e-4, atol=1e-6)


def test_masked_equals_cut(generator):
    query, keys, values = inputs(generator)
    mask = jnp.arange(S) < 4
    context, weights = attend(query, keys, values, mask, score="dot")
    cut_context, cut_weights = attend(query, keys[:4], values[:4], score="dot")
    np.testing.assert_allclose(context, cut_context, rtol=1e-6)
    np.testing.assert_allclose(weights[:4], cut_weights, rtol=1e-6)
    np.testing.assert_array_equal(weights[4:], np.zeros(3))


def test_vmap_equals_loop(generator):
    rows = [inputs(generator) for _ in range(B)]
    batched = jax.jit(jax.vmap(partial(attend, score="scaled_dot")))
    contexts, weights = batched(*map(jnp.stack, zip(*rows, strict=True)))
    for row, (context, weight) in enumerate(zip(contexts, weights, strict=True)):
        expected = attend(*rows[row], score="scaled_dot")
        np.testing.assert_allclose(context, expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(weight, expected[1], rtol=1e-5, atol=1e-6)


def test_no_gradient_reaches_padding(generator):
    mask = jnp.arange(S) < 4

    def loss(keys, values, query):
        context, _ = attend(query, keys, values, mask, score="dot")
        return (context**2).sum()

    query, keys, values = inputs(generator)
    for gradient in jax.grad(loss, argnums=(0, 1))(keys, values, query):
        assert np.any(gradient[:4])
        np.testing.assert_array_equal(gradient[4:], np.zeros_like(gradient[4:]))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_fully_masked_row_is_zero_with_finite_gradients(generator, dtype):
    query, keys, values = inputs(generator, dtype)
    nowhere = jnp.zeros(S, bool)
    context, weights = attend(query, keys, values, nowhere, score="dot")
    np.testing.assert_array_equal(weights, np.zeros(S))
    np.testing.assert_array_equal(context, np.zeros(D))
    assert (context.dtype, weights.dtype) == (dtype, jnp.float32)

    def loss(*arrays):
        return attend(*arrays, nowhere, score="dot")[0].sum()

    for gradient in jax.grad(loss, argnums=(0, 1, 2))(query, keys, values):
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_short_numbers_are_multiplied_as_if_they_were_long(generator, dtype, score):
    # q · k exceeds float16's largest number, 65504; bfloat16's numbers there are 512 apart.
    query = jnp.asarray(generator.normal(20, 0.1, 256), dtype)
    keys = jnp.asarray(generator.normal(20, 0.1, (S, 256)), dtype)
    _, weights = attend(query, keys, keys, score=score)
    wide = jnp.asarray(query, jnp.float32), jnp.asarray(keys, jnp.float32)
    _, expected = attend(*wide, wide[1], score=score)
    np.testing.assert_array_equal(weights, expected)
    assert 0 < weights.max() <= 1


@pytest.mark.parametrize("length", [1e-4, 1e3])
def test_the_cosine_of_short_numbers_has_no_length(generator, length):
    query, keys = generator.normal(size=4), generator.normal(size=(S, 8))
    W = generator.normal(size=(4, 8))
    key = query @ W
    lengths = np.linalg.norm(key) * np.linalg.norm(keys, axis=1)
    expected = np.log(2) * keys @ key / lengths  # softplus(0) cos
    given = {"query": query, "keys": length * keys, "W": W, "w": np.zeros(4), "b": np.zeros(())}
    half = {name: jnp.asarray(array, jnp.float16) for name, array in given.items()}
    cosine = SCORES["cosine"]
    found = cosine(**half | {"keys": cosine.traits.keys(half["keys"])})
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_softmax_keeps_large_scores_finite():
    huge = jnp.array([3e38, -3e38, jnp.inf])
    weights = softmax(huge, jnp.array([True, True, False]))
    np.testing.assert_array_equal(weights, [1.0, 0.0, 0.0])


def test_a_score_that_is_no_number_shows():
    keys, values = jnp.ones((3, 2)).at[1].set(jnp.nan), jnp.ones((3, 4))
    context, weights = attend(jnp.ones(2), keys, values, score="dot")
    assert jnp.isnan(context).all()
    assert jnp.isnan(weights).any()
    masked, _ = attend(jnp.ones(2), keys, values, jnp.array([True, False, True]), score="dot")
    np.testing.assert_allclose(masked, jnp.ones(4))


@pytest.mark.parametrize("log_step", [0.0, 50.0])
@pytest.mark.parametrize("log_sharpness", [0.0, 95.0])
@pytest.mark.parametrize("log_height", [0.0, 95.0])
def test_gmm_has_a_derivative_also_of_extreme_bells(log_step, log_sharpness, log_height):
    def first(query):
        bias = jnp.array([log_height, log_sharpness, log_step])
        score = partial(SCORES["gmm"], W=jnp.zeros((2, 3)), b=bias + query[0])
        queries = jnp.tile(query, (200, 1))  # each of them moves the bell on
        return attend_all(queries, jnp.ones((4, 2)), jnp.eye(4), score=score)[0].sum()

    assert jnp.isfinite(jax.grad(first)(jnp.zeros(2))).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_coverage_has_a_derivative_where_a_word_expects_to_give_none(dtype):
    ones = partial(jnp.ones, dtype=dtype)
    make = SCORES["coverage"].traits.keys
    annotations, U = jnp.array([[200], [7], [0]], dtype), ones((1, 2))
    parameters = {"W": ones((3, 2)), "V": ones(2), "v": ones(2)}

    def first(annotations):
        keys = make(annotations, U=U, f=-ones(1))
        score = partial(SCORES["coverage"], **parameters)
        return attend(ones(3), keys, annotations, score=score)[0].sum()

    assert jnp.isfinite(jax.grad(first)(annotations)).all()


def test_errors_name_a_score_that_is_an_object():
    class Own:
        def __call__(self, query, keys):
            return keys

    with pytest.raises(InputError, match=r"the score Own gives shape \[3, 1\]"):
        attend(jnp.ones(1), jnp.ones((3, 1)), jnp.ones((3, 1)), score=Own())


def test_an_error_inside_a_part_names_the_part_and_its_shapes(generator):
    query, keys, values = inputs(generator)
    with pytest.raises(TypeError) as raised:
        attend(query[1:], keys, values, score="dot")
    assert "in the score dot, called with arrays (4,), (7, 5)" in raised.value.__notes__
