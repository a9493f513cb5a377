"""Metrics against worked examples."""

import numpy as np
import pytest

from attn_jax.evaluation import metrics


def test_rates_by_hand():
    # kitten → sitting takes three edits of seven letters; the second pair takes none of three.
    assert metrics.error_rate(["kitten", "abc"], ["sitting", "abc"]) == pytest.approx(30.0)
    assert metrics.exact_match(["kitten", "abc"], ["sitting", "abc"]) == 50.0


@pytest.mark.parametrize("level", ["word", "subword", "character"])
def test_text_is_measured_in_words_if_most_lines_have_several(level):
    assert metrics.in_words(level, ["a mat", "a cat sat", "yes"], "13a")
    assert not metrics.in_words(level, ["mat", "cat", "a mat"], "13a")
    assert not metrics.in_words(level, ["猫坐在垫子上"], "13a")
    assert metrics.in_words(level, ["猫坐在垫子上"], "zh")
    assert not metrics.in_words(level, ["1998-03-03"], "13a")
    assert not metrics.in_words("symbol", ["a mat"], "13a")


def test_bleu_by_hand():
    # Precisions 5/6, 3/5, 2/4 and 1/3; no smoothing, no brevity penalty.
    hypothesis, reference = "the cat sat on a mat", "the cat sat on the mat"
    precisions = [5 / 6, 3 / 5, 2 / 4, 1 / 3]
    score, signature = metrics.bleu([hypothesis], [reference], "none")
    assert score == pytest.approx(100 * np.prod(precisions) ** 0.25)
    assert "tok:none" in signature
    assert metrics.chrf([reference], [reference])[0] == pytest.approx(100)
