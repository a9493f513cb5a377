"""Properties of mechanisms that hold for any scores and sentences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attn_jax.attention.parts import Memory, Sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attn_jax import NORMALIZERS, SCORES, attend
from attn_jax.attention import monotonic, sparse, windows
from attn_jax.attention.catalogue import resolve
from tests.attention import oracle

S = 7
numbers = st.floats(-8, 8, width=32)
scores = arrays(np.float32, S, elements=numbers)
chances = arrays(np.float32, S, elements=st.floats(0, 1, width=32))
masks = arrays(np.bool_, S).filter(np.any)
quick = settings(max_examples=60, deadline=None)

ELSEWHERE = {"sigmoid", "null", "exponential", "monotonic", "mocha", "forward"}
ONTO_THE_SIMPLEX = [*(name for name in NORMALIZERS if name not in ELSEWHERE), "entmax(alpha=1.2)"]


@pytest.mark.parametrize("name", ONTO_THE_SIMPLEX)
def test_weights_lie_on_the_simplex_of_the_real_positions(name):
    normalizer = jax.jit(resolve("normalizer", name).bound({}))

    @quick
    @given(scores, masks)
    def holds(scores, mask):
        weights = normalizer(jnp.asarray(scores), jnp.asarray(mask))
        assert np.all(weights >= 0)
        assert not np.any(weights[~mask])
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)

    holds()


@pytest.mark.parametrize("name", ONTO_THE_SIMPLEX)
def test_a_shift_of_all_scores_changes_nothing(name):
    normalizer = jax.jit(resolve("normalizer", name).bound({}))

    @quick
    @given(scores, masks, numbers)
    def holds(scores, mask, shift):
        weights = normalizer(jnp.asarray(scores), jnp.asarray(mask))
        shifted = normalizer(jnp.asarray(scores + np.float32(shift)), jnp.asarray(mask))
        np.testing.assert_allclose(weights, shifted, atol=1e-4)

    holds()


@quick
@given(scores, masks, st.floats(1.1, 3))
def test_no_point_of_the_simplex_beats_entmax(scores, mask, alpha):
    """It maximises p · e plus the Tsallis entropy: compared with corners, centre and mixtures."""

    def value(p):
        entropy = (p - p**alpha).sum() / (alpha * (alpha - 1))
        return float(p @ np.float64(scores) + entropy)

    best = np.float64(sparse.entmax(jnp.asarray(scores), jnp.asarray(mask), alpha=alpha))
    others = [*np.eye(S)[mask], mask / mask.sum()]
    others += [0.9 * best + 0.1 * other for other in others]
    assert all(value(best) >= value(other) - 1e-4 for other in others)


@pytest.mark.parametrize("depth", [1.9, 1.99, 1.999])
def test_entmax_is_precise_for_many_scores_near_its_threshold(depth):
    scores, mask = jnp.concatenate([jnp.zeros(1), jnp.full(4999, -depth)]), [True] * 5000
    weights = sparse.entmax(scores, jnp.array(mask))
    expected = oracle.entmax(1.5)(np.float64(scores).tolist(), mask, None)
    assert np.abs(weights - np.array(expected)).sum() < 1e-4


WITH_POSITIONS = {"relative", "location", "location_aware", "coverage", "gmm", "mean", "last"}


@pytest.mark.parametrize("name", [name for name in SCORES if name not in WITH_POSITIONS])
def test_weights_move_with_their_positions(name, generator):
    score = resolve("score", name)
    sizes = Sizes(5, 5, 3)
    parameters = {
        key: jnp.asarray(generator.normal(size=shape), jnp.float32)
        for key, shape in score.shapes(sizes).items()
    }
    read = jax.jit(
        lambda query, annotations: attend(
            query,
            score.keys(annotations, parameters),
            annotations,
            score=score.bound(parameters),
        )
    )
    query, annotations = generator.normal(size=5), generator.normal(size=(S, 5))
    query, annotations = jnp.asarray(query, jnp.float32), jnp.asarray(annotations, jnp.float32)
    context, weights = read(query, annotations)

    @quick
    @given(st.permutations(range(S)))
    def holds(order):
        order = jnp.asarray(order)
        again, moved = read(query, annotations[order])
        np.testing.assert_allclose(moved, weights[order], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again, context, rtol=1e-4, atol=1e-5)

    holds()


def remembered(step, weights):
    weights = jnp.asarray(weights)
    return Memory(jnp.asarray(step), weights, weights, {})


@quick
@given(chances, chances, masks)
def test_expected_alignments_are_distributions_that_move_right(chances, before, mask):
    before = np.float64(before) * mask
    before = before / max(before.sum(), 1)
    weights = np.float64(
        monotonic.expected(
            jnp.asarray(chances), jnp.asarray(before, jnp.float32), jnp.asarray(mask)
        )
    )
    assert np.all(weights >= 0)
    assert not np.any(weights[~mask])
    assert weights.sum() <= before.sum() + 1e-5
    # The mass at or before each position does not grow: nothing moves to the left.
    assert np.all(np.cumsum(weights) <= np.cumsum(before) + 1e-5)


@quick
@given(scores, masks, st.integers(0, 9), st.integers(1, 4))
def test_a_window_is_no_wider_than_it_says_and_never_empty(scores, mask, step, half_width):
    mask = np.arange(S) < mask.sum()  # a sentence without gaps
    inputs = jnp.asarray(scores[:3]), jnp.asarray(mask)
    support, gain = windows.local_m(*inputs, step=jnp.array(step), half_width=half_width)
    assert 1 <= support.sum() <= 2 * half_width + 1
    assert np.all(gain == 1)
    W, v = jnp.asarray(scores[:, None][:3]), jnp.asarray(scores[:1])
    support, gain = windows.local_p(*inputs, W=W, v=v, half_width=half_width)
    assert 1 <= support.sum() <= 2 * half_width + 1
    assert np.all((gain >= 0) & (gain <= 1))
    assert not np.any(support & ~mask)
