"""Greedy search and sampling with made-up step functions, against loops in Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.decoding.search import generate, sampler, top_k_top_p
from attn_jax.tokens import BOS, EOS, PAD
from tests.decoding.tables import probabilities, table_step

B, S, V, T = 3, 5, 7, 11
START, RNGS = jnp.zeros((), int), jax.random.split(jax.random.key(0), B)


def test_equals_a_loop(generator):
    tables = generator.normal(size=(B, T, V, V)).astype(np.float32) * 3
    weights = generator.dirichlet(np.ones(S), size=(B, T)).astype(np.float32)
    limits = [T, 4, 6]
    source = jnp.asarray(tables), jnp.asarray(weights)
    found = jax.jit(
        lambda: generate(table_step, source, START, jnp.array(limits), RNGS, T, min_length=2)
    )()
    for row in range(B):
        before, total, tokens = BOS, 0.0, []
        while before != EOS:
            chances = probabilities(tables[row], before, len(tokens), limits[row], min_length=2)
            before = int(chances.argmax())
            total += chances[before]
            tokens.append(before)
        rest = [PAD] * (T - len(tokens))
        np.testing.assert_array_equal(found.tokens[row], tokens + rest)
        np.testing.assert_allclose(found.log_probability[row], total, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(
            found.weights[row, : len(tokens)], weights[row, : len(tokens)]
        )
        assert not np.any(found.weights[row, len(tokens) :])


def test_stops_when_all_have_ended():
    steps = []

    def step(source, state, before):
        jax.debug.callback(lambda s: steps.append(int(s)), state)
        ends = jax.nn.one_hot(jnp.where(state >= source, EOS, 5), V) * 20
        return state + 1, jax.nn.log_softmax(ends), jnp.ones((len(source), S)) / S

    found = generate(step, jnp.arange(B), START, jnp.full(B, T), RNGS, T)
    jax.effects_barrier()
    assert sorted(steps) == [0, 1, 2]
    np.testing.assert_array_equal((found.tokens != PAD).sum(axis=1), [1, 2, 3])


def test_rows_that_fill_up_are_not_decoded():
    tables = np.zeros((B, T, V, V), np.float32)
    tables[..., 5] = 1
    source = jnp.asarray(tables), jnp.ones((B, T, S)) / S
    found = generate(table_step, source, START, jnp.array([T, 0, T]), RNGS, T)
    assert not np.any(found.tokens[1])
    assert found.log_probability[1] == 0


def test_what_is_drawn_has_the_probabilities_asked_for(generator):
    rows = 20000
    log_probabilities = jax.nn.log_softmax(jnp.array([0.0, 1.0, 2.0, 0.5, 1.5, -1.0]))
    rngs = jax.random.split(jax.random.key(1), rows)
    wide = jnp.broadcast_to(log_probabilities, (rows, 6))
    picked = sampler(temperature=2.0, top_k=4)(rngs, jnp.array(3), wide)
    expected = np.exp(np.array([0, 1.0, 2.0, 0.5, 1.5, 0]) / 2)
    expected[[0, 5]] = 0
    expected /= expected.sum()
    shares = np.bincount(picked, minlength=6) / rows
    # Five standard deviations of a share.
    assert np.all(np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / rows))
    again = sampler(temperature=2.0, top_k=4)(rngs[7:8], jnp.array(3), wide[:1])
    assert again[0] == picked[7]


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (0, 1.0, "abcd"),
        (2, 1.0, "ac"),
        (0, 0.45, "a"),
        (0, 0.55, "ac"),
        (0, 0.81, "acd"),
        (2, 0.81, "ac"),
        (1, 1e-6, "a"),
        (9, 1.0, "abcd"),
    ],
)
def test_the_most_probable_by_hand(top_k, top_p, kept):
    log_probabilities = jnp.log(jnp.array([[0.5, 0.08, 0.3, 0.12]]))
    (row,) = top_k_top_p(log_probabilities, top_k, top_p)
    assert "".join(np.array(list("abcd"))[np.isfinite(row)]) == kept
    np.testing.assert_array_equal(row[np.isfinite(row)], log_probabilities[0, np.isfinite(row)])
