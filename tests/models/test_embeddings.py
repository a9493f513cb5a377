"""Which tables are shared, and how the output layer uses them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Model
from attn_jax.models.embeddings import EMBEDDINGS
from attn_jax.models.seq2seq import initialize

WORDS, SIZE = 13, 6
TABLES = {"separate": 3, "shared": 2, "tied": 2, "three_way": 1}


def make(kind):
    config = Model(embeddings=kind, embedding_size=SIZE, readout_size=SIZE)
    return initialize(config, WORDS, WORDS, jax.random.key(0)).words


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_what_is_one_table_is_held_once(kind):
    sizes = sum(leaf.size for leaf in jax.tree.leaves(make(kind)))
    assert sizes == TABLES[kind] * WORDS * SIZE + WORDS  # and the bias


@pytest.mark.parametrize("kind", EMBEDDINGS)
def test_vectors_and_logits(kind):
    words = make(kind)
    ids, features = jnp.array([[4, 0, 12]]), jnp.arange(SIZE, dtype=jnp.float32)
    source, target = words.source_vectors(ids), words.target_vectors(ids)
    assert np.array_equal(source, target) == (kind in ("shared", "three_way"))
    tied = np.array_equal(
        words.target_vectors(jnp.arange(WORDS)) @ features, words.logits(features)
    )
    expected = [vector @ features for vector in words.target_vectors(jnp.arange(WORDS))]
    if kind in ("tied", "three_way"):
        np.testing.assert_allclose(words.logits(features), expected, rtol=1e-5)
    else:
        assert not tied


def test_one_table_learns_from_every_side():
    words = make("three_way")
    ids = jnp.array([[4]])

    def gradient(function):
        return jax.grad(lambda w: function(w).sum())(words).target_words.embedding[...]

    from_all = gradient(
        lambda w: (
            w.source_vectors(ids) + w.target_vectors(ids) + w.logits(jnp.ones(SIZE)).sum() / SIZE
        )
    )
    np.testing.assert_allclose(from_all[4], 2 + np.ones(SIZE), rtol=1e-6)
    np.testing.assert_allclose(from_all[5], np.ones(SIZE), rtol=1e-6)
