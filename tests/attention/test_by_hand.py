"""Cases small enough to be worked out on paper."""

import jax
import jax.numpy as jnp
import numpy as np
from attn_jax.attention.parts import Memory

from attn_jax import attend, attend_step, begin, part
from attn_jax.attention import monotonic, normalizers, position_scores, scores, sparse, windows

EVERYWHERE = jnp.ones(3, bool)


def remembered(step, weights):
    weights = jnp.array(weights)
    return Memory(jnp.array(step), weights, weights, {})


def test_additive():
    # One unit: 2 · tanh(0.5 · 1 + key), at keys -0.5 and 0.
    actual = scores.additive(
        jnp.ones(1), jnp.array([[-0.5], [0.0]]), W=jnp.array([[0.5]]), v=jnp.array([2.0])
    )
    np.testing.assert_allclose(actual, [0.0, 2 * 0.46211716], rtol=1e-6)


def test_dot_scores():
    query, keys = jnp.array([1.0, 2.0, 0.0, -1.0]), jnp.eye(4)[:2] * 3
    np.testing.assert_allclose(scores.dot(query, keys), [3.0, 6.0])
    np.testing.assert_allclose(scores.scaled_dot(query, keys), [1.5, 3.0])


def test_relative_counts_from_the_step():
    b = jnp.array([10.0, 20.0, 30.0])  # one to the left, here, one to the right
    actual = position_scores.relative(jnp.zeros(2), jnp.zeros((4, 2)), step=jnp.array(2), b=b)
    np.testing.assert_array_equal(actual, [10.0, 10.0, 20.0, 30.0])


def test_context_of_two_words():
    # Scores 0 and ln 3 give weights 1/4 and 3/4.
    keys = jnp.array([[0.0], [np.log(3.0)]])
    context, weights = attend(jnp.ones(1), keys, jnp.array([[4.0], [8.0]]), score="dot")
    np.testing.assert_allclose(weights, [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(context, [7.0], rtol=1e-6)


def test_null_takes_its_share():
    weights = normalizers.null(jnp.zeros(3), EVERYWHERE, n=jnp.log(jnp.array(7.0)))
    np.testing.assert_allclose(weights, [0.1, 0.1, 0.1], rtol=1e-6)


def test_sparse_normalizers():
    # Two of three: (1 + 0.6 - 1) / 2 = 0.3 is the threshold, above the third score.
    weights = sparse.sparsemax(jnp.array([1.0, 0.6, 0.2]), EVERYWHERE)
    np.testing.assert_allclose(weights, [0.7, 0.3, 0.0], atol=1e-7)
    # Equal scores share; one far ahead takes all.
    np.testing.assert_allclose(sparse.entmax(jnp.zeros(3), EVERYWHERE), [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_array_equal(sparse.entmax(jnp.array([9.0, 0, 0]), EVERYWHERE), [1, 0, 0])


def test_monotonic_chances_of_a_half():
    # From the first position: stop with chance 1/2, else move on. Then from where that stopped.
    score, r = jnp.zeros(3), jnp.zeros(())
    one = monotonic.monotonic(score, EVERYWHERE, memory=remembered(0, [0.0] * 3), r=r)
    np.testing.assert_allclose(one, [1 / 2, 1 / 4, 1 / 8])
    two = monotonic.monotonic(score, EVERYWHERE, memory=remembered(1, one), r=r)
    np.testing.assert_allclose(two, [1 / 4, 1 / 4, 3 / 16])


def test_hard_monotonic_never_goes_back():
    def stop(weights, score):
        memory = remembered(1, weights)
        return monotonic.hard_monotonic(
            jnp.array(score), EVERYWHERE, memory=memory, r=jnp.zeros(())
        )

    np.testing.assert_array_equal(stop([0.0, 1.0, 0.0], [5.0, -5.0, 5.0]), [0, 0, 1])
    np.testing.assert_array_equal(stop([0.0, 1.0, 0.0], [5.0, -5.0, -5.0]), [0, 0, 0])
    np.testing.assert_array_equal(stop([0.0, 0.0, 0.0], [5.0, 5.0, 5.0]), [0, 0, 0])


def test_forward_moves_by_one():
    weights = monotonic.forward(jnp.zeros(3), EVERYWHERE, memory=remembered(1, [1.0, 0.0, 0.0]))
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.0])


def test_local_windows():
    query, mask = jnp.zeros(1), jnp.arange(6) < 5
    for step, expected in ((0, [0, 1]), (2, [1, 2, 3]), (9, [3, 4])):
        support, _ = windows.local_m(query, mask, step=jnp.array(step), half_width=1)
        np.testing.assert_array_equal(np.flatnonzero(support), expected)
    # σ(0) = 1/2 of five words: position 2.5, between the second and the third.
    zeros = {"W": jnp.zeros((1, 1)), "v": jnp.zeros(1)}
    support, gain = windows.local_p(query, mask, half_width=2, **zeros)
    np.testing.assert_array_equal(np.flatnonzero(support), [0, 1, 2, 3])
    np.testing.assert_allclose(gain[:3], np.exp([-1.125, -0.125, -0.125]), rtol=1e-6)


def test_gmm_walks_in_steps_of_one():
    """All parameters 0: one bell of height 1, which begins at position 1 and moves by 1."""
    chosen = {
        "score": lambda query, keys, *, carry: position_scores.gmm(
            query, keys, carry=carry, W=jnp.zeros((1, 3)), b=jnp.zeros(3)
        ),
        "normalizer": normalizers.exponential,
    }
    part(start=lambda mask: jnp.zeros(1))(chosen["score"])
    values = jnp.ones((3, 1))
    memory = begin(EVERYWHERE, **chosen)
    for step in range(3):
        memory, _, weights = attend_step(memory, jnp.zeros(1), values, values, EVERYWHERE, **chosen)
        np.testing.assert_allclose(weights, np.exp(-((np.arange(3) - step) ** 2.0)), rtol=1e-6)
    np.testing.assert_allclose(memory.carries["score"], [3.0])
    assert memory.step == 3


def test_controls():
    mask = jnp.array([True, True, True, False, False])
    nothing, values = jnp.zeros((5, 2)), jnp.arange(5.0)[:, None]
    for score, expected in (("mean", [1 / 3] * 3 + [0, 0]), ("last", [0, 0, 1, 0, 0])):
        _, weights = attend(jnp.zeros(2), nothing, values, mask, score=score)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_gmm_moves_as_far_in_bfloat16():
    """400 steps of 0.2 lead to 80, whereas sums in bfloat16 would get stuck at 64."""
    query, keys = jnp.ones(1, jnp.bfloat16), jnp.zeros((90, 1), jnp.bfloat16)
    W, b = jnp.zeros((1, 3), jnp.bfloat16), jnp.log(jnp.array([1, 1, 0.2])).astype(jnp.bfloat16)

    def step(carry, _):
        _, carry = position_scores.gmm(query, keys, carry=carry, W=W, b=b)
        return carry, None

    centres, _ = jax.lax.scan(step, jnp.zeros(1), None, length=400)
    np.testing.assert_allclose(centres, 400 * np.exp(np.float32(b[2])), rtol=1e-3)
