"""Every mechanism over whole sentences, against float64 loops from the papers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from attn_jax import NORMALIZERS, SCORES, WINDOWS, Mechanism, Score, attend, attend_all
from attn_jax.attention.catalogue import COMPOSITIONS
from attn_jax.attention.monotonic import Monotonic
from attn_jax.attention.scores import Dot
from attn_jax.config.reading import read
from tests.attention.cases import (
    CASES,
    MASK,
    NORMALIZER_LOOPS,
    SCORE_LOOPS,
    WINDOW_LOOPS,
    B,
    Q,
    S,
    as_arrays,
    at_once,
    by_loop,
    draw,
    made,
    parameters,
    plain,
    rng_of,
    sizes_of,
    step_by_step,
)
from tests.options import with_units
from tests.stages import slow

every_case = pytest.mark.parametrize(("score", "window", "normalizer"), CASES)


def test_every_mechanism_has_an_oracle():
    loops = {plain(name) for name in SCORE_LOOPS | WINDOW_LOOPS | NORMALIZER_LOOPS}
    of_features = {"fine_grained"}  # in test_values
    assert loops | of_features == {*SCORES, *COMPOSITIONS, *WINDOWS, *NORMALIZERS}
    tested = {plain(name) for one in CASES for name in one.values}
    assert tested == loops


@every_case
def test_equals_the_papers_loop_under_jit_and_vmap(score, window, normalizer, generator):
    mechanism = made(score, window, normalizer)
    p, queries, annotations = draw(generator, mechanism)

    @jax.jit
    @partial(jax.vmap, in_axes=(None, 0, 0, 0))
    def batched(*sentence):
        return step_by_step(mechanism, *sentence), at_once(mechanism, *sentence)

    both = batched(*as_arrays((p, queries, annotations)), jnp.asarray(MASK))
    for row in range(B):
        expected = by_loop(
            (score, window, normalizer), p, queries[row], annotations[row], MASK[row]
        )
        scale = max(1.0, np.abs(expected[0]).max())
        for contexts, alignment in both:
            np.testing.assert_allclose(alignment[row], expected[1], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(contexts[row] / scale, expected[0] / scale, atol=1e-5)
            assert not np.any(alignment[row][:, ~MASK[row]])


WITH_HIDDEN_UNITS = ["additive", "normed_additive", "concat", "linear", "performer"]
LOOKING_BACK = ["location_aware(filters=2, width=3)", "coverage"]
COMPOSED = ["projected(additive)"]


def test_which_scores_have_hidden_units():
    found = {name for name in SCORES if made(name).has_hidden_units}
    assert found == {*WITH_HIDDEN_UNITS, "fine_grained"}  # which holds T S C weights besides
    assert made("projected(additive)").has_hidden_units
    assert made("pair(general, additive)", normalizer="mocha").has_hidden_units
    assert not made("projected(dot)").has_hidden_units


@pytest.mark.parametrize("name", WITH_HIDDEN_UNITS + LOOKING_BACK + COMPOSED)
def test_a_derivative_holds_no_hidden_units_of_all_queries(name, generator):
    units = 64
    score = with_units(read(Score, name), units)
    of_query, size = sizes_of(score)
    p = as_arrays(parameters(generator, score, of_query, size))

    def held(length):
        queries, annotations = jnp.ones((length, of_query)), jnp.ones((length, size))

        def squares(p, queries, annotations):
            both = attend_all(score, p, queries, annotations, jnp.ones(length, bool))
            return sum((each**2).sum() for each in both)

        gradient = jax.jit(jax.grad(squares, argnums=(0, 1, 2)))
        program = gradient.lower(p, queries, annotations).compile()
        return program.memory_analysis().temp_size_in_bytes

    short, long = 64, 256
    numbers = (held(long) - held(short)) / 4
    assert numbers < (long**2 - short**2) * units / 4


ROUGH = ("sparsemax", "entmax", "learned_entmax", "local_p")
WITH_GRADIENTS = [  # what stops at one position has none
    one
    for one in CASES
    if one.values[2] not in ("monotonic", "mocha(chunk=2)", "stepwise", "straight_through")
]


def for_gradients(score, window, normalizer, generator):
    """A mechanism, and its inputs and mask in float64."""
    mechanism = made(score, window, normalizer)
    p, queries, annotations = as_arrays(draw(generator, mechanism), jnp.float64)
    return mechanism, (p, queries[2, :3], annotations[2]), jnp.asarray(MASK[2])


@slow
@pytest.mark.parametrize(("score", "window", "normalizer"), WITH_GRADIENTS)
def test_gradients_in_both_modes(score, window, normalizer, generator):
    """To second order for smooth mechanisms; for others to first order, away from the kinks."""
    order = 1 if any(plain(n) in ROUGH for n in (score, window, normalizer)) else 2
    with jax.enable_x64(True):
        mechanism, inputs, mask = for_gradients(score, window, normalizer, generator)

        @jax.jit
        def function(*inputs):
            # `check_grads` perturbs inputs in NumPy, but the signatures require JAX's arrays.
            return step_by_step(mechanism, *jax.tree.map(jnp.asarray, inputs), mask)

        # A small step, since some second derivatives change fast.
        check_grads(function, inputs, order=order, rtol=1e-4, atol=1e-4, eps=1e-6)


@pytest.mark.parametrize(("score", "window", "normalizer"), WITH_GRADIENTS)
def test_gradients(score, window, normalizer, generator):
    """At once as step by step, along a random direction that of differences."""
    with jax.enable_x64(True):
        mechanism, inputs, mask = for_gradients(score, window, normalizer, generator)

        def derived(unrolled):
            def total(inputs):
                both = unrolled(mechanism, *inputs, mask)
                return sum((jnp.arange(1, each.size + 1) * each.ravel()).sum() for each in both)

            return jax.jit(jax.value_and_grad(total))

        along = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), inputs)
        in_steps = derived(step_by_step)
        ends = [
            in_steps(jax.tree.map(lambda leaf, by, at=at: leaf + at * by, inputs, along))[0]
            for at in (-1e-6, 1e-6)
        ]
        of_steps, at_all = (jax.tree.leaves(of(inputs)[1]) for of in (in_steps, derived(at_once)))
        for one, other in zip(at_all, of_steps, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
        slope = sum(
            (one * by).sum() for one, by in zip(of_steps, jax.tree.leaves(along), strict=True)
        )
        np.testing.assert_allclose(slope, (ends[1] - ends[0]) / 2e-6, rtol=1e-4, atol=1e-4)


def test_noise_is_of_the_given_rng():
    """With all scores 0 and r = 0, each position is a stop with a chance of a half, and noise."""
    query, annotations = jnp.zeros(Q), jnp.zeros((S, Q))
    p = {"score": {}, "window": {}, "normalizer": {"r": jnp.zeros(())}}

    def weights(noise, rng):
        mechanism = Mechanism(Dot(), normalizer=Monotonic(noise=noise))
        return attend(mechanism, p, query, annotations, rng=rng)[1]

    one, other = jax.random.key(0), jax.random.key(1)
    np.testing.assert_array_equal(weights(0, one), 0.5 ** np.arange(1, S + 1))
    np.testing.assert_array_equal(weights(0, one), weights(0, other))
    assert np.any(weights(1, one) != weights(1, other))
    np.testing.assert_array_equal(weights(1, one), weights(1, one))


def test_in_use_a_monotonic_mechanism_has_no_noise():
    mechanism = made(normalizer="monotonic")
    assert rng_of(mechanism) is None
    p = {"score": {"W": jnp.eye(Q)}, "window": {}, "normalizer": {"r": jnp.ones(())}}
    _, weights = attend(mechanism, p, jnp.zeros(Q), jnp.zeros((S, Q)))
    np.testing.assert_array_equal(weights, np.eye(S)[0])
