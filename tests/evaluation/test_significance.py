"""Significance tests, against enumeration, sacrebleu and published tables."""

import itertools

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from attn_jax.evaluation.metrics import make_bleu
from attn_jax.evaluation.significance import bleu_differs, counts_differ, interval, ratios_differ


def test_randomisation_equals_all_exchanges(generator):
    first, second = generator.integers(0, 5, (2, 10))
    differences = first - second
    exchanged = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=10)]
    exact = np.mean(np.array(exchanged) >= abs(differences.sum()))
    # Four standard deviations of a share of 20,000 draws.
    margin = 4 * np.sqrt(exact * (1 - exact) / 20000) + 1e-4
    assert counts_differ(first, second, 20000) == pytest.approx(exact, abs=margin)


def test_equal_systems_do_not_differ(generator):
    hits = generator.integers(0, 2, 50)
    assert counts_differ(hits, hits) == 1


def test_bleu_of_a_system_and_a_worse_one(generator):
    words = np.array(["the", "cat", "sat", "on", "a", "mat", "and", "ate", "its", "old", "hat"])
    references = [" ".join(generator.choice(words, 12)) for _ in range(60)]
    worse = [r.replace("cat", "dog").replace("hat", "cap") for r in references]
    last = [*references[:-1], worse[-1]]
    assert bleu_differs([references], [worse], references, "none") < 0.01
    assert bleu_differs([references], [last], references, "none") > 0.05
    assert bleu_differs([worse], [worse], references, "none") == 1
    assert bleu_differs([references[:1]], [worse[:1]], references[:1], "none") == 1


def test_bleu_of_one_seed_differs_as_sacrebleu_says(generator):
    """Its p-value counts one side alone."""
    words = np.array(["the", "cat", "sat", "on", "a", "mat", "and", "ate", "its", "old", "hat"])
    references = [" ".join(generator.choice(words, 12)) for _ in range(60)]

    def changed(words, ours):
        return [r.replace(*words) if nth % 3 == ours else r for nth, r in enumerate(references)]

    first, second = changed(("cat", "dog"), 0), changed(("mat", "rug"), 1)
    test = PairedTest(
        [("first", first), ("second", second)], {"bleu": make_bleu("none")}, [references], "bs"
    )
    _, results = test()
    expected = results["BLEU"][1].p_value
    assert 0.05 < expected < 0.5
    # Four standard deviations of the difference of two shares of 1,000, one of them doubled.
    margin = 4 * np.sqrt(6 * expected * (1 - expected) / 1000)
    found = bleu_differs([first], [second], references, "none")
    assert found == pytest.approx(2 * expected, abs=margin)
    # Two seeds with the same output give no more certainty than one.
    assert bleu_differs([first] * 2, [second] * 2, references, "none") == found


def test_bleu_differs_as_often_as_it_should(generator):
    """For equal systems, a share of about p of the p-values lies below p."""
    words = np.array([f"w{nth}" for nth in range(30)])
    p_values = []
    for _ in range(150):
        references = generator.choice(words, (30, 10))
        texts = []
        for _ in range(2):
            kept = generator.random(references.shape) < 0.7
            said = np.where(kept, references, generator.choice(words, references.shape))
            texts.append([[" ".join(sentence) for sentence in said]])
        p_values.append(bleu_differs(*texts, list(map(" ".join, references)), "none", 100))
    # Four standard deviations of a share of 150.
    assert np.mean(np.array(p_values) < 0.2) == pytest.approx(0.2, abs=0.13)


def test_ratios_differ_as_often_as_they_should(generator):
    """For equal systems, a share of about p of the p-values lies below p; unequal ones differ."""
    p_values = []
    for _ in range(200):
        wholes = generator.integers(3, 9, 80)
        first, second = (np.stack([generator.binomial(wholes, 0.7), wholes], 1) for _ in range(2))
        p_values.append(ratios_differ(first, second, 200))
    # Four standard deviations of a share of 200.
    assert np.mean(np.array(p_values) < 0.2) == pytest.approx(0.2, abs=0.12)
    better = np.stack([generator.binomial(wholes, 0.9), wholes], 1)
    assert ratios_differ(first, better) < 0.01
    assert ratios_differ(first, first) == 1
    assert ratios_differ([(3, 4)], [(1, 4)]) == 1


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.706), (5, 2.776), (10, 2.262)])
def test_the_interval_has_students_quantiles(generator, count, quantile):
    values = generator.normal(size=count)
    low, high = interval(values)
    error = np.std(values, ddof=1) / np.sqrt(count)
    assert high - low == pytest.approx(2 * quantile * error, rel=1e-3)
    assert (low + high) / 2 == pytest.approx(values.mean())
    assert interval([99.5, 99.5]) == (99.5, 99.5)
