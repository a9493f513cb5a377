"""A made-up language, in which the next word depends on the previous one and on the step.

If it did not depend on the step, sentences with the same pairs of words would be equally probable.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax.tokens import BOS, EOS, PAD


def table_step(source, index, before):
    """A decoding step whose source consists of tables [R, T, V, V] and weights [R, T, S]."""
    tables, weights = source
    rows = jnp.arange(len(tables))
    return index + 1, jax.nn.log_softmax(tables[rows, index, before]), weights[:, index]


def probabilities(table, before, index, limit, min_length=0):
    """The log-probabilities of the next word, in float64; -inf for words that must not follow."""
    scores = np.float64(table[index, before])
    chances = scores - np.log(np.exp(scores).sum())
    chances[[PAD, BOS]] = -np.inf
    if index < min_length:
        chances[EOS] = -np.inf
    if index == limit - 1:
        chances[np.arange(len(chances)) != EOS] = -np.inf
    return chances


def all_sentences(size, limit, min_length=0):
    """Every sentence of a vocabulary, `EOS` included."""
    words = [word for word in range(size) if word not in (PAD, BOS, EOS)]
    for length in range(min_length, limit):
        for sentence in itertools.product(words, repeat=length):
            yield [*sentence, EOS]


def log_probability(table, sentence):
    """The log-probability of a sentence, in float64."""
    scores = np.float64(table)
    chances = scores - np.log(np.exp(scores).sum(axis=2, keepdims=True))
    before = [BOS, *sentence[:-1]]
    return sum(chances[t, a, b] for t, (a, b) in enumerate(zip(before, sentence, strict=True)))
