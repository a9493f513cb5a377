"""Beam search: against all sentences of tiny vocabularies, and against a beam of Python lists."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.decoding.beam import beam
from attn_jax.decoding.options import GNMT, Average, NoPenalty, uncovered
from attn_jax.decoding.search import generate, largest
from attn_jax.errors import InputError
from attn_jax.tokens import BOS, EOS, PAD
from tests.decoding.tables import all_sentences, log_probability, probabilities, table_step

B, S = 2, 3
PENALTIES = {
    "none": (NoPenalty(), lambda length: 1),
    "average": (Average(), lambda length: length),
    "gnmt": (GNMT(alpha=0.7), lambda length: ((5 + length) / 6) ** 0.7),
}


@partial(
    jax.jit, static_argnames=("beam_size", "n_best", "penalty", "coverage_penalty", "min_length")
)
def run(tables, weights, limits, *, beam_size, penalty="none", **options):
    length = weights.shape[1]
    return beam(
        table_step,
        (tables, weights),
        jnp.zeros((), int),
        jnp.ones((B, S), bool),
        limits,
        length,
        beam_size=beam_size,
        length_penalty=PENALTIES[penalty][0],
        **options,
    )


def make(seed, size, length):
    generator = np.random.default_rng(seed)
    tables = generator.normal(size=(B, length, size, size)).astype(np.float32) * 2
    weights = generator.dirichlet(np.ones(S), size=(B, length)).astype(np.float32)
    return tables, weights


def scored(table, weights, sentence, penalty, coverage):
    """The score of a sentence as in the paper."""
    read = np.float64(weights[: len(sentence)]).sum(axis=0)
    taken = sum(np.log(min(total, 1)) for total in read)
    return log_probability(table, sentence) / penalty(len(sentence)) + coverage * taken


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    limits=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    penalty=st.sampled_from(list(PENALTIES)),
    options=st.sampled_from([(0, 0.0), (0, 0.3), (1, 0.3)]),
)
def test_equals_all_sentences(seed, limits, penalty, options):
    size, (min_length, coverage) = 5, options
    tables, weights = make(seed, size, 4)
    papers = PENALTIES[penalty][1]
    beam_size = (size - 2) * (size - 3) ** 3  # the largest possible number of candidates
    options = {"penalty": penalty, "coverage_penalty": coverage, "min_length": min_length}
    found = run(
        tables, weights, jnp.array(limits), beam_size=beam_size, n_best=beam_size, **options
    )
    for row in range(B):
        expected = sorted(
            (
                (scored(tables[row], weights[row], sentence, papers, coverage), sentence)
                for sentence in all_sentences(size, limits[row], min(min_length, limits[row] - 1))
            ),
            reverse=True,
        )[:beam_size]
        scores = [score for score, _ in expected]
        count = len(scores)
        np.testing.assert_allclose(found.score[row, :count], scores, rtol=1e-5, atol=1e-5)
        assert not np.any(np.isfinite(found.score[row, count:]))
        for nth, (_, sentence) in enumerate(expected):
            tokens = [token for token in np.array(found.tokens[row, nth]) if token != PAD]
            if np.sum(np.isclose(scores, scores[nth], rtol=1e-4, atol=1e-4)) == 1:
                assert tokens == sentence
            total = log_probability(tables[row], tokens)
            np.testing.assert_allclose(found.log_probability[row, nth], total, rtol=1e-5, atol=1e-5)


def python_beam(table, limit, beam_size, penalty):
    """A beam search that keeps lists and never stops early."""
    live, ended = [(0.0, [])], []
    for index in range(limit):
        candidates = []
        for total, words in live:
            chances = probabilities(table, words[-1] if words else BOS, index, limit)
            candidates += [
                (total + chance, [*words, word])
                for word, chance in enumerate(chances)
                if chance > -np.inf
            ]
        candidates.sort(key=lambda candidate: -candidate[0])
        ended += [
            (total / penalty(len(words)), words)
            for total, words in candidates[:beam_size]
            if words[-1] == EOS
        ]
        live = [one for one in candidates[: 2 * beam_size] if one[1][-1] != EOS][:beam_size]
    return sorted(ended, key=lambda candidate: -candidate[0])


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    beam_size=st.sampled_from([1, 3]),
    limit=st.integers(1, 9),
    penalty=st.sampled_from(list(PENALTIES)),
)
def test_narrow_beams_equal_lists_and_stopping_early_changes_nothing(
    seed, beam_size, limit, penalty
):
    tables, weights = make(seed, 9, 9)
    papers = PENALTIES[penalty][1]
    limits = jnp.full(B, limit)
    found = run(tables, weights, limits, beam_size=beam_size, n_best=beam_size, penalty=penalty)
    for row in range(B):
        expected = python_beam(tables[row], limit, beam_size, papers)[:beam_size]
        for nth, (score, words) in enumerate(expected):
            np.testing.assert_allclose(found.score[row, nth], score, rtol=1e-5, atol=1e-5)
            steps = len(words)
            np.testing.assert_array_equal(found.tokens[row, nth, :steps], words)
            assert not np.any(found.tokens[row, nth, steps:])
            np.testing.assert_array_equal(found.weights[row, nth, :steps], weights[row, :steps])
            assert not np.any(found.weights[row, nth, steps:])
        assert not np.any(np.isfinite(found.score[row, len(expected) :]))


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), limits=st.tuples(st.integers(0, 9), st.integers(1, 9)))
def test_a_beam_of_one_is_greedy(seed, limits):
    tables, weights = make(seed, 9, 9)
    found = run(tables, weights, jnp.array(limits), beam_size=1)
    source = jnp.asarray(tables), jnp.asarray(weights)
    rngs = jax.random.split(jax.random.key(0), B)
    greedy = generate(table_step, source, jnp.zeros((), int), jnp.array(limits), rngs, 9)
    np.testing.assert_array_equal(found.tokens[:, 0], greedy.tokens)
    np.testing.assert_allclose(found.log_probability[:, 0], greedy.log_probability, rtol=1e-6)
    np.testing.assert_array_equal(found.weights[:, 0], greedy.weights)


def test_stops_as_soon_as_nothing_better_can_come():
    """The end is almost certain from the start, and no other hypothesis can catch up."""
    steps = []
    table = np.zeros((B, 50, 7, 7), np.float32)
    table[..., EOS] = 9
    source = jnp.asarray(table), jnp.ones((B, 50, S)) / S

    def step(source, index, before):
        jax.debug.callback(lambda index: steps.append(int(index)), index)
        return table_step(source, index, before)

    limits = jnp.full(B, 50)
    mask = jnp.ones((B, S), bool)
    found = beam(step, source, jnp.zeros((), int), mask, limits, 50, beam_size=3)
    jax.effects_barrier()
    assert steps == [0]
    np.testing.assert_array_equal(found.tokens[:, 0, :2], [[EOS, PAD]] * B)


@pytest.mark.parametrize(
    ("size", "count"), [(12, 10), (624, 10), (625, 10), (641, 10), (5000, 300), (20000, 300)]
)
def test_the_largest_of_long_rows(generator, size, count):
    values = generator.permutation(3 * size).reshape(3, size).astype(np.float32)
    values[1, 5:] = -np.inf
    found, where = largest(jnp.asarray(values), count)
    np.testing.assert_array_equal(found, -np.sort(-values, axis=1)[:, :count])
    finite = np.isfinite(found)
    picked = np.take_along_axis(values, np.array(where), axis=1)
    np.testing.assert_array_equal(picked[finite], found[finite])


def test_the_largest_where_there_are_not_as_many():
    found, where = largest(jnp.array([[1.0, 3.0]]), 4)
    np.testing.assert_array_equal(found, [[3, 1, -np.inf, -np.inf]])
    assert np.all(where < 2)


def test_padding_is_not_left_unread():
    mask = jnp.array([True, True, False])
    taken = uncovered(jnp.array([[0.5, 2.0, 0.0], [0.0, 0.25, 0.0]]), mask)
    np.testing.assert_allclose(taken, [np.log(0.5), np.log(1e-6) + np.log(0.25)], rtol=1e-6)


def test_refuses_a_penalty_that_falls_with_the_length():
    with pytest.raises(InputError, match="alpha must be at least 0, got -1"):
        GNMT(alpha=-1.0)
