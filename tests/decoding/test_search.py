"""Greedy search over made-up step functions, against a loop in Python."""

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.decoding.alignments import links, pharaoh
from attn_jax.decoding.search import greedy
from attn_jax.tokens import BOS, EOS, PAD

B, S, V, T = 3, 5, 7, 11


def table_step(tables, weights):
    """The next token depends on the token before alone, by a table [B, V, V]."""

    def step(state, before):
        log_probabilities = jax.nn.log_softmax(tables[jnp.arange(B), before])
        return state + 1, log_probabilities, weights[:, state]

    return step


def test_equals_a_loop(generator):
    tables = generator.normal(size=(B, V, V)).astype(np.float32) * 3
    weights = generator.dirichlet(np.ones(S), size=(B, T)).astype(np.float32)
    mask = jnp.ones((B, S), bool)
    step = table_step(jnp.asarray(tables), jnp.asarray(weights))
    found = jax.jit(lambda: greedy(step, jnp.zeros((), int), mask, T))()
    for row in range(B):
        before, total, tokens = BOS, 0.0, []
        while len(tokens) < T and before != EOS:
            scores = np.float64(tables[row, before])
            chances = scores - np.log(np.exp(scores).sum())
            before = int(chances.argmax())
            total += chances[before]
            tokens.append(before)
        rest = [PAD] * (T - len(tokens))
        np.testing.assert_array_equal(found.tokens[row], tokens + rest)
        np.testing.assert_allclose(found.log_probability[row], total, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(
            found.alignment[row, : len(tokens)], weights[row, : len(tokens)]
        )
        assert not np.any(found.alignment[row, len(tokens) :])


def test_stops_when_all_have_ended():
    steps = []

    def step(state, before):
        jax.debug.callback(lambda s: steps.append(int(s)), state)
        ends = jax.nn.one_hot(jnp.where(state >= jnp.arange(B), EOS, 5), V) * 20
        return state + 1, jax.nn.log_softmax(ends), jnp.ones((B, S)) / S

    found = greedy(step, jnp.zeros((), int), jnp.ones((B, S), bool), T)
    jax.effects_barrier()
    assert sorted(steps) == [0, 1, 2]
    np.testing.assert_array_equal((found.tokens != PAD).sum(axis=1), [1, 2, 3])


def test_rows_without_a_source_are_not_decoded():
    mask = jnp.ones((B, S), bool).at[1].set(False)
    step = table_step(jnp.zeros((B, V, V)).at[:, :, 5].set(1), jnp.ones((B, T, S)) / S)
    found = greedy(step, jnp.zeros((), int), mask, T)
    assert not np.any(found.tokens[1])
    assert found.log_probability[1] == 0


def test_links_of_the_largest_weights():
    alignment = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.0, 0.0, 1.0]])
    assert pharaoh(links(alignment)) == "1-0 0-1"
