"""Properties of mechanisms that hold for any scores and sentences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attn_jax import (
    NORMALIZERS,
    SCORES,
    WINDOWS,
    Mechanism,
    Normalizer,
    Past,
    Score,
    attend,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.attention import monotonic
from attn_jax.attention.fused_normalizers import Fusedmax
from attn_jax.attention.scores import Dot
from attn_jax.attention.sparse_normalizers import Entmax, sparse
from attn_jax.attention.windows import AdaptiveSpan, LocalM, LocalP
from attn_jax.config.reading import read
from tests.attention import oracle
from tests.attention.cases import as_arrays, parameters
from tests.options import with_units

S = 7
numbers = st.floats(-8, 8, width=32)
scores = arrays(np.float32, S, elements=numbers)
chances = arrays(np.float32, S, elements=st.floats(0, 1, width=32))
masks = arrays(np.bool_, S).filter(np.any)
quick = settings(max_examples=60, deadline=None)

WITHOUT_PARAMETERS = {
    name
    for name, one in NORMALIZERS.items()
    if not (one.reads or one().is_stateful or one.overrides("init") or one.needs_logarithms)
}
SUMMING_TO_ONE = {name for name in WITHOUT_PARAMETERS if NORMALIZERS[name].sums_to_one}
ONTO_THE_SIMPLEX = sorted(SUMMING_TO_ONE | {"entmax(alpha=1.2)"})


def weights_of(name):
    """A compiled normalizer without parameters, of scores and a mask."""
    normalizer = read(Normalizer, name)
    return jax.jit(lambda e, mask: normalizer.weights({}, e, mask, Past(mask=mask, rng=None)))


@pytest.mark.parametrize("name", ONTO_THE_SIMPLEX)
def test_weights_lie_on_the_simplex_of_the_real_positions(name):
    normalizer = weights_of(name)

    @quick
    @given(scores, masks)
    def holds(scores, mask):
        weights = normalizer(jnp.asarray(scores), jnp.asarray(mask))
        assert np.all(weights >= 0)
        assert not np.any(weights[~mask])
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)

    holds()


@pytest.mark.parametrize("name", [name for name in ONTO_THE_SIMPLEX if name != "smoothing"])
def test_a_shift_of_all_scores_changes_nothing(name):
    normalizer = weights_of(name)

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

    best = np.float64(sparse(jnp.asarray(scores), jnp.asarray(mask), alpha))
    others = [*np.eye(S)[mask], mask / mask.sum()]
    others += [0.9 * best + 0.1 * other for other in others]
    assert all(value(best) >= value(other) - 1e-4 for other in others)


@pytest.mark.parametrize("depth", [1.9, 1.99, 1.999])
def test_entmax_is_precise_for_many_scores_near_its_threshold(depth):
    scores, mask = jnp.concatenate([jnp.zeros(1), jnp.full(4999, -depth)]), [True] * 5000
    weights = sparse(scores, jnp.array(mask), Entmax().alpha)
    expected = oracle.entmax(1.5)(np.float64(scores).tolist(), mask, None)
    assert np.abs(weights - np.array(expected)).sum() < 1e-4


@pytest.mark.parametrize("name", [name for name, one in SCORES.items() if not one.positional])
def test_weights_move_with_their_positions(name, generator):
    score = with_units(read(Score, name), 3)
    p = as_arrays(parameters(generator, score, 5, 5))
    query, annotations = as_arrays((generator.normal(size=5), generator.normal(size=(S, 5))))
    attended = jax.jit(lambda query, annotations: attend(score, p, query, annotations))
    context, weights = attended(query, annotations)

    @quick
    @given(st.permutations(range(S)))
    def holds(order):
        order = jnp.asarray(order)
        again, moved = attended(query, annotations[order])
        np.testing.assert_allclose(moved, weights[order], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again, context, rtol=1e-4, atol=1e-5)

    holds()


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
    mask = jnp.arange(S) < mask.sum()  # a sentence without gaps
    past = Past(mask=mask, rng=None, step=jnp.array(step))
    query = jnp.asarray(scores[:3])

    def width(bias):
        assert np.all((bias == 0) | (bias == -np.inf))
        return np.sum(mask & (bias == 0))

    window = LocalM(half_width=half_width)
    assert 1 <= width(window.bias({}, query, past)) <= 2 * half_width + 1
    assert np.all(window.gain({}, query, past) == 1)
    window, p = LocalP(half_width=half_width, units=1), {"W": query[:, None], "v": query[:1]}
    centre = window.query(p, query)
    assert 1 <= width(window.bias(p, centre, past)) <= 2 * half_width + 1
    gain = window.gain(p, centre, past)
    assert np.all((gain >= 0) & (gain <= 1))


@pytest.mark.parametrize("window", [LocalM(half_width=1), LocalP(half_width=1, units=2)])
@pytest.mark.parametrize("normalizer", ["softmax", "sigmoid", "null", "sparsemax"])
def test_weights_are_exactly_zero_outside_the_window(window, normalizer, generator):
    mechanism = Mechanism(Dot(), window, read(Normalizer, normalizer))
    p = as_arrays(parameters(generator, mechanism, 5, 5))
    query, annotations = as_arrays((generator.normal(size=5), generator.normal(size=(S, 5))))
    mask = jnp.arange(S) != 1
    sentence, memory = begin(mechanism, p, annotations, mask)
    _, _, weights = attend_step(mechanism, p, sentence, memory, query)
    past = Past(mask=mask, rng=None, step=jnp.array(0))
    bias = window.bias(p["window"], window.query(p["window"], query), past)
    outside = (bias == -np.inf) | ~mask
    assert outside.any()
    np.testing.assert_array_equal(weights[outside], 0)
    assert np.all(weights[~outside] > 0) or normalizer == "sparsemax"


NEEDED = {"exponential": "gmm"}  # the score without which there is no such normalizer
# So that the span ends within the sentence, and that neighbours fuse.
SEEN = {"adaptive_span": AdaptiveSpan(longest=10), "fusedmax": Fusedmax(penalty=5)}
PARTS = {"score": SCORES, "window": WINDOWS, "normalizer": NORMALIZERS}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, all_ in PARTS.items() for name in all_]
)
def test_a_part_says_whether_it_depends_on_where_words_stand(kind, name):
    """Other parts give words that change their places the same weights there."""
    part = SEEN.get(name, PARTS[kind][name]())
    score = read(Score, NEEDED.get(name, "general"))
    mechanism = Mechanism(**{"score": score, kind: part})
    generator, Q = np.random.default_rng(3), 12
    p = as_arrays(parameters(generator, mechanism, Q, Q))
    queries, annotations = generator.normal(size=(3, Q)), generator.normal(size=(29, Q))
    order = generator.permutation(len(annotations))
    attend_from = jax.jit(lambda annotations: attend_all(mechanism, p, queries, annotations)[1])
    before, after = attend_from(annotations), attend_from(annotations[order])
    same = np.allclose(before[:, order], after, atol=1e-5)
    assert same != any(one.positional for each in mechanism for one in each.parts())
