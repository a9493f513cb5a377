"""Cases small enough to be worked out on paper."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Mechanism, Past, attend, attend_step, begin
from attn_jax.attention import monotonic, windows
from attn_jax.attention.content_scores import Performer
from attn_jax.attention.monotonic import Forward, Monotonic
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.normalizers import Null
from attn_jax.attention.offset_scores import Relative, slope
from attn_jax.attention.scores import Additive, Dot, Last, Mean, ScaledDot
from attn_jax.attention.sparse_normalizers import Entmax, Sparsemax
from attn_jax.attention.windows import DiagonalPrior, LocalM, LocalP

EVERYWHERE = jnp.ones(3, bool)


def seen(mask=EVERYWHERE, **known):
    """What a part sees besides its inputs."""
    return Past(mask=mask, **{"rng": None} | known)


def test_additive():
    # One unit: 2 · tanh(0.5 · 1 + key), at keys -0.5 and 0.
    p = {"W": jnp.array([[0.5]]), "U": jnp.array([[0.25]]), "v": jnp.array([2.0])}
    score, annotations = Additive(units=1), jnp.array([[-2.0], [0.0]])
    keys, query = score.keys(p, annotations), score.query(p, jnp.ones(1))
    actual = score.score(p, query, keys, seen())
    np.testing.assert_allclose(actual, [0.0, 2 * 0.46211716], rtol=1e-6)


def test_dot_scores():
    query, keys = jnp.array([1.0, 2.0, 0.0, -1.0]), jnp.eye(4)[:2] * 3
    np.testing.assert_allclose(Dot().score({}, query, keys, seen()), [3.0, 6.0])
    np.testing.assert_allclose(ScaledDot().score({}, query, keys, seen()), [1.5, 3.0])


def test_relative_counts_from_the_step():
    b = jnp.array([10.0, 20.0, 30.0])  # one to the left, here, one to the right
    past = seen(step=jnp.array(2))
    actual = Relative(distance=1).score({"b": b}, jnp.zeros(2), jnp.zeros((4, 2)), past)
    np.testing.assert_array_equal(actual, [10.0, 10.0, 20.0, 30.0])


def test_slopes_of_alibi():
    eight = 0.5 ** np.arange(1, 9)
    np.testing.assert_allclose(slope(jnp.arange(8), jnp.array(8)), eight, rtol=1e-6)
    # Of twelve heads, the last four have every second slope of sixteen.
    twelve = [*eight, *0.5 ** np.arange(0.5, 4)]
    np.testing.assert_allclose(slope(jnp.arange(12), jnp.array(12)), twelve, rtol=1e-6)


def test_random_features_estimate_the_weights_of_a_dot_product(generator):
    # Short vectors, of which the estimates vary little.
    query, keys = 0.5 * generator.normal(size=6), 0.5 * generator.normal(size=(5, 6))
    _, expected = attend(ScaledDot(), {}, query, keys)
    _, estimated = attend(Performer(units=20_000), {}, query, keys)
    np.testing.assert_allclose(estimated, expected, rtol=0.02)


def test_the_diagonal_prior_fades():
    def bias(done):
        past = seen(step=jnp.array(1), train_step=jnp.array(done))
        return DiagonalPrior(steps=10, fading=10).bias({}, jnp.zeros(1), past)

    np.testing.assert_allclose(jnp.exp(bias(10)).sum(), 1, rtol=1e-5)  # a distribution
    middle = (1 + jnp.exp(bias(10))) / 2
    np.testing.assert_allclose(jnp.exp(bias(15)), middle, rtol=1e-5)
    np.testing.assert_array_equal(bias(20), 0)


def test_context_of_two_words():
    # Scores 0 and ln 3 give weights 1/4 and 3/4.
    annotations, values = jnp.array([[0.0], [np.log(3.0)]]), jnp.array([[4.0], [8.0]])
    context, weights = attend(Dot(), {}, jnp.ones(1), annotations, values=values)
    np.testing.assert_allclose(weights, [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(context, [7.0], rtol=1e-6)


def test_null_takes_its_share():
    p = {"n": jnp.log(jnp.array(7.0))}
    weights = Null().weights(p, jnp.zeros(3), EVERYWHERE, seen())
    np.testing.assert_allclose(weights, [0.1, 0.1, 0.1], rtol=1e-6)


def test_sparse_normalizers():
    def weights(normalizer, *scores):
        return normalizer.weights({}, jnp.array(scores), EVERYWHERE, seen())

    # Two of three: (1 + 0.6 - 1) / 2 = 0.3 is the threshold, above the third score.
    np.testing.assert_allclose(weights(Sparsemax(), 1.0, 0.6, 0.2), [0.7, 0.3, 0.0], atol=1e-7)
    # Equal scores share; one far ahead takes all.
    np.testing.assert_allclose(weights(Entmax(), 0.0, 0.0, 0.0), [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_array_equal(weights(Entmax(), 9.0, 0.0, 0.0), [1, 0, 0])


def moved(normalizer, own, *scores, rng=None):
    """The weights of a monotonic normalizer after its previous state; r = 0."""
    p, inputs = {"r": jnp.zeros(())}, (jnp.array(scores), EVERYWHERE)
    past = seen(rng=rng, own=jnp.array(own))
    own = normalizer.advance(p, *inputs, past)
    return normalizer.weights(p, *inputs, past.moved(own))


def test_monotonic_chances_of_a_half():
    # From the first position: stop with chance 1/2, else move on. Then from where that stopped.
    soft, rng = Monotonic(noise=0), jax.random.key(0)
    first = soft.start({}, EVERYWHERE)
    one = moved(soft, first, 0.0, 0.0, 0.0, rng=rng)
    np.testing.assert_allclose(one, [1 / 2, 1 / 4, 1 / 8])
    two = moved(soft, one, 0.0, 0.0, 0.0, rng=rng)
    np.testing.assert_allclose(two, [1 / 4, 1 / 4, 3 / 16])


@pytest.mark.parametrize(
    ("own", "scores", "expected"),
    [
        ([0.0, 1.0, 0.0], [5.0, -5.0, 5.0], [0, 0, 1]),
        ([0.0, 1.0, 0.0], [5.0, -5.0, -5.0], [0, 0, 0]),
        ([0.0, 0.0, 0.0], [5.0, 5.0, 5.0], [0, 0, 0]),
    ],
)
def test_in_use_monotonic_never_goes_back(own, scores, expected):
    np.testing.assert_array_equal(moved(Monotonic(), own, *scores), expected)


def test_forward_moves_by_one():
    weights = moved(Forward(), [1.0, 0.0, 0.0], 0.0, 0.0, 0.0)
    np.testing.assert_allclose(weights, [0.5, 0.5, 0.0])


def test_reading_starts_at_the_first_real_position():
    mask = jnp.array([False, True, True])
    np.testing.assert_array_equal(monotonic.Moving.start(Forward(), {}, mask), [0, 1, 0])


def test_local_windows():
    mask = jnp.arange(6) < 5

    def near(window, query, **known):
        bias = window.bias({}, query, seen(mask, **known))
        assert {*np.unique(bias)} <= {0, -np.inf}
        return np.flatnonzero(np.array(mask) & (bias == 0))

    for step, expected in ((0, [0, 1]), (2, [1, 2, 3]), (9, [3, 4])):
        found = near(LocalM(half_width=1), jnp.zeros(1), step=jnp.array(step))
        np.testing.assert_array_equal(found, expected)
    # σ(0) = 1/2 of five words: position 2.5, between the second and the third.
    window, zeros = LocalP(half_width=2), {"W": jnp.zeros((1, 1)), "v": jnp.zeros(1)}
    query = window.query(zeros, jnp.zeros(1))
    np.testing.assert_array_equal(near(window, query), [0, 1, 2, 3])
    gain = window.gain(zeros, query, seen(mask))
    np.testing.assert_allclose(gain[:3], np.exp([-1.125, -0.125, -0.125]), rtol=1e-6)
    assert windows.length(mask) == 5


def test_gmm_walks_in_steps_of_one():
    """All parameters 0: one bell of height 1, which begins at position 1 and moves by 1."""
    score, p = Gmm(components=1), {"W": jnp.zeros((1, 3)), "b": jnp.zeros(3)}
    sentence, memory = begin(score, p, jnp.ones((3, 1)))
    for step in range(3):
        memory, _, weights = attend_step(score, p, sentence, memory, jnp.zeros(1))
        np.testing.assert_allclose(weights, np.exp(-((np.arange(3) - step) ** 2.0)), rtol=1e-6)
    np.testing.assert_allclose(memory.own.score, [3.0])


def test_controls():
    mask = jnp.array([True, True, True, False, False])
    annotations = jnp.arange(10.0).reshape(5, 2)
    for score, expected in ((Mean(), [1 / 3] * 3 + [0, 0]), (Last(), [0, 0, 1, 0, 0])):
        context, weights = attend(score, {}, jnp.zeros(2), annotations, mask)
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
        np.testing.assert_allclose(context, expected @ np.array(annotations), rtol=1e-6)


def test_gmm_moves_as_far_in_bfloat16():
    """400 steps of 0.2 lead to 80, whereas sums in bfloat16 would get stuck at 64."""
    b = jnp.log(jnp.array([1, 1, 0.2])).astype(jnp.bfloat16)
    score, p = Gmm(components=1), {"W": jnp.zeros((1, 3), jnp.bfloat16), "b": b}
    mechanism = Mechanism(score)
    p = {"score": p, "window": {}, "normalizer": {}}
    sentence, memory = begin(mechanism, p, jnp.zeros((90, 1), jnp.bfloat16))
    query = jnp.ones(1, jnp.bfloat16)

    def step(memory, _):
        return attend_step(mechanism, p, sentence, memory, query)[0], None

    memory, _ = jax.lax.scan(step, memory, None, length=400)
    np.testing.assert_allclose(memory.own.score, 400 * np.exp(np.float32(b[2])), rtol=1e-3)
