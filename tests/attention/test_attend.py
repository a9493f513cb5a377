"""Attention of one query over one sentence."""

from collections import OrderedDict
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import freeze

from attn_jax import Mechanism, Past, Score, attend, attend_all
from attn_jax.attention import steps
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.normalizers import Softmax, Temperature
from attn_jax.attention.position_scores import Coverage
from attn_jax.attention.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    General,
    ScaledDot,
)
from attn_jax.attention.sparse_normalizers import Sparsemax, sparse
from attn_jax.attention.windows import LocalM
from attn_jax.kernels.memory import Held
from tests.attention.cases import as_arrays, parameters

S, Q, C = 7, 5, 11


def inputs(generator, dtype=np.float32):
    """A query, annotations, and values of another size."""
    return (
        jnp.asarray(generator.normal(size=Q), dtype),
        jnp.asarray(generator.normal(size=(S, Q)), dtype),
        jnp.asarray(generator.normal(size=(S, C)), dtype),
    )


def dot(query, annotations, values, mask=None):
    return attend(Dot(), {}, query, annotations, mask, values=values)


def test_values_are_the_annotations_by_default(generator):
    query, annotations, _ = inputs(generator)
    context, weights = attend(Dot(), {}, query, annotations)
    expected, same = dot(query, annotations, annotations)
    np.testing.assert_array_equal(context, expected)
    np.testing.assert_array_equal(weights, same)


@pytest.mark.parametrize("queries_at_once", [2, 3, 4, 50])
def test_queries_scored_together_equal_one_after_another(generator, monkeypatch, queries_at_once):
    query, annotations, _ = inputs(generator)
    mechanism = Mechanism(Additive(units=6), normalizer=Softmax())
    queries, p = jnp.outer(jnp.arange(4.0), query), mechanism.init(jax.random.key(0), Q, Q)

    def outcome():
        def total(p, queries, annotations):
            contexts, weights = attend_all(
                mechanism, p, queries, annotations, jnp.arange(S) < 5, rng=jax.random.key(1)
            )
            return (contexts**2).sum(), weights

        return jax.value_and_grad(total, argnums=(0, 1, 2), has_aux=True)(p, queries, annotations)

    one_after_another = outcome()
    monkeypatch.setattr(steps, "UNITS", Held(cpu=queries_at_once * S * 6, other=0))
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), outcome(), one_after_another
    )


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_a_fully_masked_row_is_zero_with_finite_gradients(generator, dtype):
    arrays, nowhere = inputs(generator, dtype), jnp.zeros(S, bool)
    context, weights = dot(*arrays, nowhere)
    np.testing.assert_array_equal(weights, np.zeros(S))
    np.testing.assert_array_equal(context, np.zeros(C))
    assert (context.dtype, weights.dtype) == (dtype, jnp.float32)
    for gradient in jax.grad(lambda *a: dot(*a, nowhere)[0].sum(), argnums=(0, 1, 2))(*arrays):
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("score", [Dot(), ScaledDot()])
def test_short_numbers_are_multiplied_as_if_they_were_long(generator, dtype, score):
    # q · k exceeds float16's largest number, 65504; bfloat16's numbers there are 512 apart.
    query = jnp.asarray(generator.normal(20, 0.1, 256), dtype)
    annotations = jnp.asarray(generator.normal(20, 0.1, (S, 256)), dtype)
    _, weights = attend(score, {}, query, annotations)
    _, expected = attend(score, {}, *as_arrays((query, annotations)))
    np.testing.assert_array_equal(weights, expected)
    assert 0 < weights.max() <= 1


@pytest.mark.parametrize("score", [Dot(), Additive(units=1), Concat(units=1), General()])
def test_scores_are_summed_in_float32_at_least(score):
    p = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), score.init(jax.random.key(0), 2, 2))
    query, annotations = jnp.ones(2, jnp.bfloat16), jnp.ones((3, 2), jnp.bfloat16)
    past = Past(mask=jnp.ones(3, bool), rng=None)
    scores = score.score(p, score.query(p, query), score.keys(p, annotations), past)
    assert scores.dtype == jnp.float32


@pytest.mark.parametrize("length", [1e-4, 1e3])
def test_the_cosine_of_short_numbers_has_no_length(generator, length):
    query, annotations = generator.normal(size=4), generator.normal(size=(S, 8))
    W = generator.normal(size=(4, 8))
    key = query @ W
    lengths = np.linalg.norm(key) * np.linalg.norm(annotations, axis=1)
    expected = np.log(2) * annotations @ key / lengths  # softplus(0) cos
    p = {"W": W, "w": np.zeros(4), "b": np.zeros(())}
    p, query, annotations = as_arrays((p, query, length * annotations), jnp.float16)
    score, past = Cosine(), Past(mask=jnp.ones(S, bool), rng=None)
    found = score.score(p, score.query(p, query), score.keys(p, annotations), past)
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_softmax_keeps_large_scores_finite():
    huge, mask = jnp.array([3e38, -3e38, jnp.inf]), jnp.array([True, True, False])
    weights = Softmax().weights({}, huge, mask, Past(mask=mask, rng=None))
    np.testing.assert_array_equal(weights, [1.0, 0.0, 0.0])


def test_halves_of_large_numbers_have_a_temperature():
    scores, mask = jnp.array([33_000, 0], jnp.float16), jnp.ones(2, bool)
    weights = Temperature(tau=0.5).weights({}, scores, mask, Past(mask=mask, rng=None))
    assert weights.dtype == scores.dtype
    np.testing.assert_array_equal(weights, [1, 0])


def test_a_score_that_is_no_number_shows():
    annotations, values = jnp.ones((3, 2)).at[1].set(jnp.nan), jnp.ones((3, 4))
    context, weights = dot(jnp.ones(2), annotations, values)
    assert jnp.isnan(context).all()
    assert jnp.isnan(weights).any()
    masked, _ = dot(jnp.ones(2), annotations, values, jnp.array([True, False, True]))
    np.testing.assert_allclose(masked, jnp.ones(4))


@pytest.mark.parametrize("log_step", [0.0, 50.0])
@pytest.mark.parametrize("log_sharpness", [0.0, 95.0])
@pytest.mark.parametrize("log_height", [0.0, 95.0])
def test_gmm_has_a_derivative_also_of_extreme_bells(log_step, log_sharpness, log_height):
    def first(query):
        b = jnp.array([log_height, log_sharpness, log_step]) + query[0]
        queries = jnp.tile(query, (200, 1))  # each of them moves the bell on
        p = {"W": jnp.zeros((2, 3)), "b": b}
        return attend_all(Gmm(components=1), p, queries, jnp.eye(4))[0].sum()

    assert jnp.isfinite(jax.grad(first)(jnp.zeros(2))).all()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_coverage_has_a_derivative_where_a_word_expects_to_give_none(dtype):
    shapes = {"W": (3, 2), "U": (1, 2), "V": (2,), "v": (2,)}
    p = {name: jnp.ones(shape, dtype) for name, shape in shapes.items()}
    p["f"] = -jnp.ones(1, dtype)

    def first(annotations):
        return attend(Coverage(units=2), p, jnp.ones(3, dtype), annotations)[0].sum()

    assert jnp.isfinite(jax.grad(first)(jnp.array([[200], [7], [0]], dtype))).all()


def test_a_mechanism_takes_the_parameters_of_its_parts(generator):
    query, annotations, _ = inputs(generator)
    score = Additive(units=3)
    p = as_arrays(parameters(generator, score, Q, Q))
    keys = jnp.tanh(query @ p["W"] + annotations @ p["U"]) @ p["v"]
    expected = sparse(keys, jnp.ones(S, bool), 2.0)
    mechanism = Mechanism(score, normalizer=Sparsemax())
    whole = {"score": p, "window": {}, "normalizer": {}}
    np.testing.assert_allclose(attend(mechanism, whole, query, annotations)[1], expected, rtol=1e-5)


class Weights(NamedTuple):
    """Parameters that are in no dictionary."""

    W: Any


class Listed(Score):
    """A score with a list of parameters."""

    def init(self, rng, Q, D):
        return [Weights(jax.random.normal(rng, (Q, D)))]

    def score(self, p, query, keys, past):
        return keys @ (query @ p[0].W)


@pytest.mark.parametrize("score", [General(), Listed()])
@pytest.mark.parametrize("kind", [freeze, MappingProxyType, OrderedDict])
def test_parameters_may_be_in_any_mapping(generator, score, kind):
    query, annotations, _ = inputs(generator)
    mechanism = Mechanism(score, LocalM())
    p = mechanism.init(jax.random.key(0), Q, Q)
    given = kind(dict(reversed(p.items())))
    expected = attend(mechanism, p, query, annotations)[1]
    same = partial(np.testing.assert_allclose, desired=expected, rtol=1e-6)
    same(attend(mechanism, given, query, annotations)[1])
    (weights,) = attend_all(mechanism, given, query[None], annotations)[1]
    same(weights)
    inside = p["score"] if isinstance(score, Listed) else kind(p["score"])
    np.testing.assert_allclose(attend(score, inside, query, annotations)[1].sum(), 1, rtol=1e-6)


def test_a_plain_function_is_a_score():
    def mine(query, keys):
        return keys.sum(axis=1) - query[0]

    context, weights = attend(mine, {}, jnp.ones(2), jnp.ones((7, 3)))
    np.testing.assert_allclose(weights, np.full(7, 1 / 7), rtol=1e-6)
    np.testing.assert_allclose(context, np.ones(3), rtol=1e-6)
    assert Mechanism(mine) == Mechanism(mine)
    assert Mechanism(mine).init(jax.random.key(0), 2, 3)["score"] == {}


def test_plain_functions_are_windows_and_normalizers():
    def near(query, mask):
        return jnp.where(jnp.arange(mask.size) < query[0], 0.0, -jnp.inf)

    def equal(scores, mask):
        return mask / jnp.maximum(mask.sum(), 1)

    mechanism = Mechanism(Dot(), near, equal)
    p = mechanism.init(jax.random.key(0), 2, 2)
    mask = jnp.array([False, True, True, True])
    _, weights = attend(mechanism, p, jnp.array([3.0, 0.0]), jnp.ones((4, 2)), mask)
    np.testing.assert_array_equal(weights, [0, 0.5, 0.5, 0])
