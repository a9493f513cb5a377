"""How often weights are at the right position, worked out by hand."""

import numpy as np
import pytest

from attn_jax.alignment.accuracy import by_head, counted, hits


def accuracy(alignment, gold):
    (figures,) = by_head([counted(alignment[None, None], gold)])
    return figures["alignment_accuracy"], figures["alignment_shift"]


def test_hits_at_a_shift():
    # Rows attend to 1, 0, 2, 2; tokens come from 0, 2, 2: all are right one step later.
    alignment = np.eye(3)[[1, 0, 2, 2]]
    gold = np.array([0, 2, 2])
    np.testing.assert_array_equal(hits(alignment, gold, 1), [True, True, True])
    np.testing.assert_array_equal(hits(alignment, gold, 0), [False, False, True])
    np.testing.assert_array_equal(hits(alignment, gold, -1), [False, False, False])
    assert accuracy(alignment, gold) == (100.0, 1)


def test_what_looks_nowhere_in_particular_hits_nothing():
    gold = np.array([0, 1])
    for alignment in (np.full((3, 4), 0.25), np.zeros((3, 4)), np.zeros((3, 1))):
        assert not hits(alignment, gold, 0).any()
    assert accuracy(np.full((2, 3), 1 / 3), np.array([0])) == (0.0, 0)


def test_no_shift_wins_a_draw():
    assert accuracy(np.ones((4, 1)), np.zeros(3, int)) == (100.0, 0)


def test_each_head_by_hand():
    sharp, blind = np.eye(4)[:, :3], np.full((4, 3), 1 / 3)
    weights = np.stack([[sharp, blind], [blind, sharp[:, ::-1]]])  # two layers of two heads
    first, second, _, last = by_head([counted(weights, np.arange(3))] * 2)
    assert first == {
        "layer": 1,
        "head": 1,
        "sharpness": 75.0,  # the last row attends to nothing
        "alignment_accuracy": 100.0,
        "alignment_shift": 0,
    }
    assert (second["head"], second["sharpness"]) == (2, pytest.approx(100 / 3))
    assert (last["layer"], last["head"]) == (2, 2)
    assert last["alignment_accuracy"] < 50
    assert set(by_head([counted(weights, None)])[0]) == {"layer", "head", "sharpness"}
