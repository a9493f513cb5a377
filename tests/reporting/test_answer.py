"""What a comparison answers in words, with numbers that are computed here in other ways."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from attn_jax import config
from attn_jax.evaluation.significance import holm
from attn_jax.reporting.about import listed
from attn_jax.reporting.answer import answer as answer_of
from attn_jax.reporting.answer import told_p
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.differences import differences
from attn_jax.reporting.runs import Run

N = 400
DEFAULTS = config.values(config.Experiment())
FOLDERS = map(str, itertools.count())
NUMBER = r"(-?\d+\.\d+)"


def run(hits, seed=0, seconds=10.0, score="additive"):
    """A run that has some of the test words right."""
    given = {"model.score": score, "data.target_level": "symbol", "seed": seed}
    options = DEFAULTS | config.given(given)
    sentences = [
        {"source": [], "target": ["a"], "text_tokens": ["a" if hit else "b"], "reference": "a"}
        for hit in hits
    ]
    rates = dict.fromkeys(("steps_per_second", "target_tokens_per_second"), 100 / seconds)
    metrics = {"exact_match": 100 * float(np.mean(hits)), "perplexity": 1.0}
    evaluation = {"metrics": metrics, "heads": [{"sharpness": 1.0}], "step": 100, "parameters": 1}
    folder = Path(next(FOLDERS))
    return Run(
        options,
        evaluation,
        [{"step": 100, "valid_exact_match": 0} | rates],
        sentences,
        {},
        folder=folder,
    )


def answer(systems):
    return answer_of(Comparison("", "", systems))


def right(*wrong):
    """All words but those of some ranges."""
    hits = np.ones(N, bool)
    for begin, end in wrong:
        hits[begin:end] = False
    return hits


def p_of(first, second):
    """The p-value of McNemar's exact test."""
    better, worse = (first & ~second).sum(), (second & ~first).sum()
    return stats.binomtest(int(better), int(better + worse)).pvalue


def interval_of(first, second):
    """The 95 % of the difference of two shares in percent, by the normal approximation."""
    each = 100 * (first.astype(float) - second)
    half = 1.96 * each.std() / np.sqrt(N)
    return each.mean() - half, each.mean() + half


A, B, C = right((0, 40)), right((30, 72)), right((0, 130))


def test_two_that_do_not_differ_beat_a_third():
    systems = {"additive": [run(A)], "general": [run(B, seconds=5)], "none": [run(C, score="last")]}
    equal, beaten, fast, limit = answer(systems)
    p = holm([p_of(A, B), p_of(A, C), p_of(B, C)])
    (told,) = re.fullmatch(
        rf"additive and general do not differ significantly \(p = {NUMBER}\)\.", equal
    ).groups()
    assert float(told) == pytest.approx(p[0], abs=0.02)
    assert max(p[1:]) < 0.0005
    low, high = map(
        float,
        re.fullmatch(
            rf"Both beat none by {NUMBER} to {NUMBER} points of exact match "
            r"\(95 %, p < 0\.001\)\.",
            beaten,
        ).groups(),
    )
    bounds = [interval_of(A, C), interval_of(B, C)]
    assert low == pytest.approx(min(low for low, _ in bounds), abs=0.5)
    assert high == pytest.approx(max(high for _, high in bounds), abs=0.5)
    assert fast == (
        "Of these, general trains in the shortest time, 5.0 s a run; the other takes 10 s."
    )
    under = re.match(rf"400 test sentences cannot tell differences under about {NUMBER} ", limit)[1]
    half = np.median([(high - low) / 2 for low, high in [interval_of(A, B), *bounds]])
    assert float(under) == pytest.approx(half, abs=0.3)


def test_one_that_is_the_best():
    systems = {"additive": [run(A)], "general": [run(C)]}
    best, beaten, _ = answer(systems)
    assert best == "additive is the best."
    assert beaten.startswith("It beats general by ")


def test_of_more_than_two_each_is_held_against_the_best():
    systems = {
        "a": [run(A, seconds=8)],
        "b": [run(B)],
        "c": [run(right((60, 104)))],
    }
    equal, fast, _ = answer(systems)
    lowest = min(holm([p_of(A, B), p_of(A, right((60, 104))), p_of(B, right((60, 104)))])[:2])
    assert equal.startswith("a, b and c do not differ significantly (p ")
    assert float(re.search(NUMBER, equal)[1]) == pytest.approx(lowest, abs=0.02)
    assert equal.endswith(", each against a).")
    assert "the others take 10 s." in fast


def test_a_system_that_only_one_of_the_best_beats_is_said_to_be_so():
    # The errors of `b` are others than those of `a`, and `c` has all of those of `a` and more.
    first, second, third = right((0, 40)), right((40, 86)), right((0, 60))
    assert holm([p_of(first, second), p_of(first, third), p_of(second, third)]) == pytest.approx(
        [1.0, 0.0, 0.5], abs=0.5
    )
    systems = {"a": [run(first)], "b": [run(second)], "c": [run(third)]}
    equal, beaten, *_ = answer(systems)
    assert equal.startswith("a and b do not differ significantly")
    assert beaten.startswith("Of these, only a beats c by ")


def test_a_control_among_the_best_shows_nothing_of_attention():
    systems = {"additive": [run(A)], "none": [run(B, score="last")]}
    told = answer(systems)
    assert "none has no attention, so that attention helps is not shown here." in told
    assert not any("attention helps" in line for line in answer({"none": [run(A)], "c": [run(C)]}))


def test_seeds_are_taken_together_and_their_spread_is_told():
    others = [right((n, n + 40)) for n in (5, 15)]
    systems = {
        "a": [run(A), run(others[0], seed=1), run(right((0, 34)), seed=2)],
        "c": [run(C), run(C, seed=1), run(right((0, 126)), seed=2)],
    }
    *_, spread = answer(systems)
    deviations = [np.std([90, 90, 91.5], ddof=1), np.std([67.5, 67.5, 68.5], ddof=1)]
    assert f"differ by {np.median(deviations):.2f} points of exact match" in spread


def test_all_pairs_are_adjusted_together():
    systems = {name: [run(hits)] for name, hits in zip("abc", (A, B, C), strict=True)}
    found = differences(systems)
    found = found[found["metric"] == "exact_match"]
    assert found["p"].to_list() == pytest.approx([p_of(A, B), p_of(A, C), p_of(B, C)], abs=0.02)
    assert found["p_holm"].to_list() == holm(found["p"].to_list())


def test_of_equal_systems_no_difference_is_told():
    equal, *others = answer({name: [run(A)] for name in "ab"})
    assert equal == "a and b do not differ significantly (p = 1.00)."
    assert not others  # neither is faster
    equal, *_ = answer({name: [run(A)] for name in "abc"})
    assert equal == "a, b and c do not differ significantly (p = 1.00, each against a)."


def test_short_times_are_told_in_tenths():
    systems = {"a": [run(A, seconds=0.31)], "b": [run(B, seconds=0.4)], "c": [run(A, seconds=12)]}
    assert any("time, 0.3 s a run; the others take 0.4 to 12 s." in one for one in answer(systems))
    equal = {name: [run(A, seconds=seconds)] for name, seconds in (("a", 0.31), ("b", 0.33))}
    assert not any("shortest time" in one for one in answer(equal))


def test_there_is_nothing_to_say_of_one_system_or_of_few_sentences():
    assert answer({"a": [run(A)]}) == []
    few = {"a": [run(A[:19])], "b": [run(B[:19])]}
    assert answer(few) == ["19 test sentences are too few for confidence intervals."]
    few = {"a": [run(A[:5])], "b": [run(B[:5])]}
    (told,) = answer(few)
    assert told == "5 test sentences are too few to tell systems apart (p cannot be below 0.062)."


def test_names_and_p_values_in_words():
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
    assert listed("abcdefghijk") == "a, b, c, d, e, f, g, h and 3 more"
    assert [told_p(p) for p in (0.00001, 0.0123, 0.4, 1.0)] == [
        "p < 0.001",
        "p = 0.012",
        "p = 0.40",
        "p = 1.00",
    ]
