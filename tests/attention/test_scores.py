"""Scores against loops in float64, written from the papers, at distinct prime sizes."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attn_jax.attention import scores
from attn_jax.attention.scores import SCORES, Sizes
from attn_jax.errors import InputError

S, B = 7, 3


def additive_loop(query, annotations, W, U, v):
    result = []
    for h in annotations:
        total = 0.0
        for a in range(len(v)):
            inner = sum(query[q] * W[q, a] for q in range(len(query)))
            inner += sum(h[d] * U[d, a] for d in range(len(h)))
            total += v[a] * math.tanh(inner)
        result.append(total)
    return np.array(result)


def dot_loop(query, annotations):
    return np.array([sum(q * d for q, d in zip(query, h, strict=True)) for h in annotations])


def scaled_dot_loop(query, annotations):
    return dot_loop(query, annotations) / math.sqrt(len(query))


def general_loop(query, annotations, W):
    return np.array(
        [
            sum(query[i] * W[i, j] * h[j] for i in range(len(query)) for j in range(len(h)))
            for h in annotations
        ]
    )


def concat_loop(query, annotations, W, v):
    result = []
    for h in annotations:
        joined = np.concatenate([query, h])
        result.append(sum(v[a] * math.tanh(joined @ W[:, a]) for a in range(len(v))))
    return np.array(result)


CASES = {
    "additive": (additive_loop, Sizes(Q=5, D=11, A=13)),
    "dot": (dot_loop, Sizes(Q=5, D=5, A=13)),
    "scaled_dot": (scaled_dot_loop, Sizes(Q=5, D=5, A=13)),
    "general": (general_loop, Sizes(Q=5, D=11, A=13)),
    "concat": (concat_loop, Sizes(Q=5, D=11, A=13)),
}


def draw(generator, name):
    sizes = CASES[name][1]
    shapes = scores.shapes(SCORES[name], sizes)
    parameters = {key: generator.normal(size=shape) for key, shape in shapes.items()}
    return generator.normal(size=(B, sizes.Q)), generator.normal(size=(B, S, sizes.D)), parameters


def narrow(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)


def whole(name, query, annotations, parameters):
    """The score from annotations: both halves."""
    keys = scores.keys(SCORES[name], annotations, **parameters)
    return SCORES[name](query, keys, **parameters)


def test_every_score_has_an_oracle():
    assert CASES.keys() == SCORES.keys()


@pytest.mark.parametrize("name", SCORES)
def test_equals_the_loop_under_jit_and_vmap(name, generator):
    query, annotations, parameters = draw(generator, name)
    expected = [CASES[name][0](q, h, **parameters) for q, h in zip(query, annotations, strict=True)]
    batched = jax.jit(jax.vmap(partial(whole, name), in_axes=(0, 0, None)))
    actual = batched(*narrow((query, annotations, parameters)))
    np.testing.assert_allclose(actual, np.array(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_vmap_equals_a_loop_over_the_batch(name, generator):
    query, annotations, parameters = narrow(draw(generator, name))
    batched = jax.vmap(partial(whole, name), in_axes=(0, 0, None))(query, annotations, parameters)
    for row in range(B):
        one = whole(name, query[row], annotations[row], parameters)
        np.testing.assert_allclose(batched[row], one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SCORES)
def test_gradients_to_second_order(name, generator):
    query, annotations, parameters = draw(generator, name)
    with jax.enable_x64(True):
        wide = jax.tree.map(jnp.asarray, (query[0], annotations[0], parameters))
        # The numerical derivative perturbs in NumPy; the signatures take JAX's arrays.
        check_grads(lambda *inputs: whole(name, *jax.tree.map(jnp.asarray, inputs)), wide, order=2)


def test_additive_by_hand():
    # One unit: 2 · tanh(0.5 · 1 + key), at keys -0.5 and 0.
    actual = SCORES["additive"](
        jnp.ones(1), jnp.array([[-0.5], [0.0]]), W=jnp.array([[0.5]]), v=jnp.array([2.0])
    )
    np.testing.assert_allclose(actual, [0.0, 2 * 0.46211716], rtol=1e-6)


def test_dot_scores_by_hand():
    query, keys = jnp.array([1.0, 2.0, 0.0, -1.0]), jnp.eye(4)[:2] * 3
    np.testing.assert_allclose(SCORES["dot"](query, keys), [3.0, 6.0])
    np.testing.assert_allclose(SCORES["scaled_dot"](query, keys), [1.5, 3.0])


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_dot_refuses_different_sizes(name):
    with pytest.raises(InputError, match="Q=5 and D=7"):
        scores.shapes(SCORES[name], Sizes(5, 7, 3))


def test_a_plain_function_is_a_score():
    def mine(query, keys):
        return keys.sum(axis=1)

    assert scores.shapes(mine, Sizes(2, 3, 5)) == {}
    np.testing.assert_array_equal(scores.keys(mine, jnp.ones((7, 3))), np.ones((7, 3)))


def test_resolves_module_and_function():
    assert scores.resolve("attn_jax.attention.scores:dot") is SCORES["dot"]


@pytest.mark.parametrize("name", ["nonsense", "no_such_module:f", "math:no_such_function"])
def test_refuses_an_unknown_score(name):
    with pytest.raises(InputError, match=r"nonsense|no_such"):
        scores.resolve(name)
