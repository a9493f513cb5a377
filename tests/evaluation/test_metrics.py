"""Metrics against brute force and worked examples."""

import functools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.data.gold import Gold, read_gold
from attn_jax.data.text_files import read_lines
from attn_jax.errors import InputError
from attn_jax.evaluation import metrics
from attn_jax.evaluation.alignment_error import (
    alignment_accuracy,
    alignment_error,
    by_head,
    hits,
)

HANSARDS = Path(__file__).parents[3] / "shared" / "data" / "hansards_align_enfr"

words = st.lists(st.sampled_from("abc"), max_size=6).map(tuple)


@functools.cache
def distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    change = distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, distance(a[1:], b) + 1, distance(a, b[1:]) + 1)


@given(words, words)
def test_edit_distance_equals_the_recursion(hypothesis, reference):
    assert metrics.edit_distance(hypothesis, reference) == distance(hypothesis, reference)


def test_rates_by_hand():
    # kitten → sitting takes three edits of seven letters; the second pair takes none of three.
    assert metrics.error_rate(["kitten", "abc"], ["sitting", "abc"]) == pytest.approx(30.0)
    assert metrics.exact_match(["kitten", "abc"], ["sitting", "abc"]) == 50.0


def test_bleu_by_hand():
    # Precisions 5/6, 3/5, 2/4 and 1/3; no smoothing, no brevity penalty.
    hypothesis, reference = "the cat sat on a mat", "the cat sat on the mat"
    precisions = [5 / 6, 3 / 5, 2 / 4, 1 / 3]
    score, signature = metrics.bleu([hypothesis], [reference], "none")
    assert score == pytest.approx(100 * np.prod(precisions) ** 0.25)
    assert "tok:none" in signature
    assert metrics.chrf([reference], [reference])[0] == pytest.approx(100)


def test_hits_at_a_shift():
    # Rows attend to 1, 0, 2, 2; tokens come from 0, 2, 2: all are right one step later.
    alignment = np.eye(3)[[1, 0, 2, 2]]
    gold = np.array([0, 2, 2])
    np.testing.assert_array_equal(hits(alignment, gold, 1), [True, True, True])
    np.testing.assert_array_equal(hits(alignment, gold, 0), [False, False, True])
    np.testing.assert_array_equal(hits(alignment, gold, -1), [False, False, False])
    assert alignment_accuracy([alignment], [gold]) == (100.0, 1)


def test_what_looks_nowhere_in_particular_hits_nothing():
    gold = np.array([0, 1])
    for alignment in (np.full((3, 4), 0.25), np.zeros((3, 4)), np.zeros((3, 1))):
        assert not hits(alignment, gold, 0).any()
    assert alignment_accuracy([np.full((2, 3), 1 / 3)], [np.array([0])]) == (0.0, 0)


def test_no_shift_wins_a_draw():
    assert alignment_accuracy([np.ones((4, 1))], [np.zeros(3, int)]) == (100.0, 0)


def test_each_head_by_hand():
    sharp, blind = np.eye(4)[:, :3], np.full((4, 3), 1 / 3)
    weights = np.stack([[sharp, blind], [blind, sharp[:, ::-1]]])  # two layers of two heads
    first, second, _, last = by_head([weights, weights], [[0, 1, 2]] * 2)
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
    assert set(by_head([weights], None)[0]) == {"layer", "head", "sharpness"}


def test_alignment_error_by_hand():
    # Of four links three are possible, two of them sure; one sure link was not made.
    made = [{(0, 0), (1, 1), (2, 2)}, {(5, 5)}]
    golds = [
        Gold(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (2, 2)})),
        Gold(frozenset({(0, 1)}), frozenset({(0, 1)})),
    ]
    assert alignment_error(made, golds) == {
        "alignment_error_rate": pytest.approx(100 * (1 - (2 + 3) / (4 + 3))),
        "precision": pytest.approx(75),
        "recall": pytest.approx(200 / 3),
        "f1": pytest.approx(2 * 75 * 200 / 3 / (75 + 200 / 3)),
    }
    with pytest.raises(InputError, match="no alignment error without links"):
        alignment_error([set()], golds[:1])


@pytest.mark.skipif(not HANSARDS.is_dir(), reason="the Hansards are not beside the project")
def test_the_diagonal_of_the_hansards():
    """53 percent, as in the notes of the data: French word j links to (j + 0.5) I / J."""
    english, french = (read_lines(HANSARDS / f"gold.testA.{side}") for side in ("en", "fr"))
    sizes = [(len(e.split()), len(f.split())) for e, f in zip(english, french, strict=True)]
    golds = read_gold(HANSARDS / "gold.testA.align", sizes)
    diagonal = [{(int((j + 0.5) * e / f), j) for j in range(f)} for e, f in sizes]
    figures = alignment_error(diagonal, golds)
    assert figures["alignment_error_rate"] == pytest.approx(53.2, abs=0.1)
