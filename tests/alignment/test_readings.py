"""Readings of a model's weights, worked out by hand."""

import numpy as np
import pytest

from attn_jax.alignment.units import Reading, by_words, masses, read, readings, words
from attn_jax.data.two_sources import TwoSources
from attn_jax.data.vocabulary import Characters, Symbols


def test_a_reading_is_a_head_and_a_shift(generator):
    weights = generator.random((2, 3, 5, 4))
    np.testing.assert_allclose(read(weights, Reading()), weights.mean(axis=(0, 1))[:4])
    np.testing.assert_array_equal(read(weights, Reading((1, 2), 1)), weights[1, 2, 1:])
    back = read(weights, Reading((0, 1), -1))
    np.testing.assert_array_equal(back[1:], weights[0, 1, :3])
    assert not np.any(back[0])
    assert not np.any(read(weights, Reading((0, 1), 2))[3])
    assert len(readings(2, 3)) == 4 * 7
    assert readings(1, 1, (0, 1)) == [Reading(), Reading(None, 1)]
    assert str(Reading((1, 2), 1)) == "layer 2, head 3, shift +1"


def test_tokens_become_words_by_hand():
    # Source tokens 0 and 1 are one word, as are target tokens 1 and 2.
    weights = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.0, 0.4, 0.6]])
    of_words = by_words(weights, [0, 0, 1], [0, 1, 1], (3, 2))
    np.testing.assert_allclose(of_words, [[0.5, 0.5, 0], [0.6, 0.4, 0]])


def test_masses_by_hand():
    weights = np.array([[0.5, 0.25], [0.0, 0.5], [0.3, 0.7]])[None, None]
    whole = masses([weights], Reading())
    assert whole == {"null_mass": pytest.approx(37.5), "end_mass": pytest.approx(70)}
    # Weights of a sigmoid may sum to more than 1, which leaves nothing, and no less than nothing.
    more = np.array([[0.5, 0.25], [0.9, 0.9], [0.3, 0.7]])[None, None]
    assert masses([more], Reading())["null_mass"] == pytest.approx(12.5)
    # Of the head and shift that are read: here the second head, and of the first the next step.
    heads = np.stack([weights[0, 0], np.full((3, 2), 0.1)])[None]
    of_second = masses([heads], Reading(head=(0, 1)))
    assert of_second == {"null_mass": pytest.approx(80), "end_mass": pytest.approx(10)}
    later = masses([heads], Reading(head=(0, 0), shift=1))
    assert later == {"null_mass": pytest.approx(25), "end_mass": pytest.approx(70)}


def test_words_of_a_second_source_are_marked():
    sources = TwoSources(Characters(["a", "b"]), Symbols(["N", "PL"]))
    assert words(sources.cut("ab\tN PL")) == (["ab", "\tN", "\tPL"], [0, 0, 1, 2])
