"""A made-up language, the next word of which depends on the one before, and its sentences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.tokens import BOS, EOS, PAD


def table_step(tables, weights, width=1):
    """The step of tables [B, V, V] with weights [B, T, S], for so many rows of each sentence."""
    sentence = jnp.repeat(jnp.arange(len(tables)), width)
    tables, weights = jnp.asarray(tables), jnp.asarray(weights)

    def step(index, before):
        log_probabilities = jax.nn.log_softmax(tables[sentence, before])
        return index + 1, log_probabilities, weights[sentence, index]

    return step


def probabilities(table, before, index, limit, shortest=0):
    """The log-probabilities of what may come next, in float64."""
    scores = np.float64(table[before])
    chances = scores - np.log(np.exp(scores).sum())
    chances[[PAD, BOS]] = -np.inf
    if index < shortest:
        chances[EOS] = -np.inf
    if index == limit - 1:
        chances[np.arange(len(chances)) != EOS] = -np.inf
    return chances


def all_sentences(size, limit, shortest=0):
    """Every sentence of a vocabulary, `EOS` included."""
    words = [word for word in range(size) if word not in (PAD, BOS, EOS)]
    for length in range(shortest, limit):
        for sentence in itertools.product(words, repeat=length):
            yield [*sentence, EOS]


def log_probability(table, sentence):
    """Of a sentence, in float64."""
    scores = np.float64(table)
    chances = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return sum(chances[a, b] for a, b in zip([BOS, *sentence], sentence, strict=False))
