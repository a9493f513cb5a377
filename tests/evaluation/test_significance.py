"""Significance tests, against enumeration, sacrebleu and published tables."""

import itertools

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from attn_jax.evaluation.metrics import bleu_counts, bleu_of, make_bleu
from attn_jax.evaluation.significance import (
    FEWEST,
    bootstrapped,
    exchanged,
    exchanged_p,
    holm,
    interval,
    ratios_differ,
    resampled_bleu,
    resampled_mean,
)


def bleu_p(first, second, references, samples=1000):
    """The p-value of systems with these texts, of each seed."""
    ours, theirs = (
        np.mean(
            [resampled_bleu(bleu_counts(of, references, "none"), samples) for of in texts], axis=0
        )
        for texts in (first, second)
    )
    return bootstrapped(ours - theirs, len(references))


def counts_differ(first, second, samples=10000):
    """The p-value of systems with these counts."""
    sums = exchanged(first, samples) - exchanged(second, samples)
    return exchanged_p(np.sum(first) - np.sum(second), sums)


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
    assert bleu_p([references], [worse], references) < 0.01
    assert bleu_p([references], [last], references) > 0.05
    assert bleu_p([worse], [worse], references) == 1


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
    found = bleu_p([first], [second], references)
    assert found == pytest.approx(2 * expected, abs=margin)
    # Two seeds with the same output give no more certainty than one.
    assert bleu_p([first] * 2, [second] * 2, references) == found


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
        p_values.append(bleu_p(*texts, list(map(" ".join, references)), 100))
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


def test_a_bootstrap_of_few_sentences_says_nothing(generator):
    """It would find 2 or 3 to differ in a quarter to a third of all equal systems."""
    references = [" ".join(generator.choice(list("abcdef"), 8)) for _ in range(FEWEST)]
    said = [text.replace("a", "x") for text in references]
    parts = np.stack([generator.binomial(9, 0.5, FEWEST), np.full(FEWEST, 9)], 1)
    for count in (1, 2, 3, FEWEST - 1):
        assert np.isnan(bleu_p([references[:count]], [said[:count]], references[:count]))
        assert np.isnan(ratios_differ(parts[:count], parts[:count] // 2))
    assert bleu_p([references], [said], references) < 0.01
    assert ratios_differ(parts, parts // [2, 1]) < 0.01


@pytest.mark.parametrize("test", ["bleu", "ratios", "counts"])
@pytest.mark.parametrize("count", [2, 3, 5, 10, FEWEST])
def test_equal_systems_seldom_differ_however_few_sentences_there_are(generator, test, count):
    """Of equal systems, at most about 5 % have p < 0.05; where there is no p, none."""
    words = np.array([f"w{nth}" for nth in range(200)])

    def p_value():
        easy = generator.beta(4, 2, count)  # for both systems
        lengths = generator.integers(6, 16, count)
        if test == "bleu":
            wanted = [generator.choice(words, length) for length in lengths]
            texts = [
                [
                    " ".join(np.where(generator.random(len(one)) < share, one, "x"))
                    for one, share in zip(wanted, easy, strict=True)
                ]
                for _ in range(2)
            ]
            return bleu_p(texts[:1], texts[1:], list(map(" ".join, wanted)), 200)
        hits = [generator.binomial(lengths, easy) for _ in range(2)]
        if test == "ratios":
            return ratios_differ(*(np.stack([one, lengths], 1) for one in hits), 200)
        return counts_differ(*hits, 200)

    p_values = np.array([p_value() for _ in range(100)])
    # Four standard deviations of a share of 100, and what a bootstrap of few sentences exceeds.
    assert np.mean(p_values < 0.05) <= 0.05 + 0.09 + 0.02


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.706), (5, 2.776), (10, 2.262)])
def test_the_interval_has_students_quantiles(generator, count, quantile):
    values = generator.normal(size=count)
    low, high = interval(values)
    error = np.std(values, ddof=1) / np.sqrt(count)
    assert high - low == pytest.approx(2 * quantile * error, rel=1e-3)
    assert (low + high) / 2 == pytest.approx(values.mean())
    assert interval([99.5, 99.5]) == (99.5, 99.5)


def test_p_values_that_hold_together():
    """Holm 1979: the smallest times their number, the next times one less; none falls again."""
    p_values = np.array([0.01, np.nan, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(holm(p_values), [0.03, np.nan, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def test_samples_of_a_mean_spread_as_its_standard_error_says(generator):
    hits = generator.integers(0, 2, 400)
    observed, *samples = resampled_mean(hits, 4000)
    assert observed == hits.mean()
    assert np.std(samples) == pytest.approx(np.std(hits) / 20, rel=0.1)


def test_bleu_of_sums_is_sacrebleu_s(generator):
    """Also where n-grams of an order do not match or do not exist, and nothing was said."""
    metric = make_bleu("none")
    counts = generator.integers(0, 4, (400, 10)) * generator.integers(0, 2, (400, 1))
    counts = np.concatenate([counts, generator.integers(50, 100, (20, 10)), np.zeros((1, 10), int)])
    counts[:, 4:8] += counts[:, :4]  # there are at least as many n-grams as match
    counts[:, 8] = counts[:, 4]
    expected = [
        metric.compute_bleu(
            list(one[:4]),
            list(one[4:8]),
            int(one[8]),
            int(one[9]),
            metric.smooth_method,
            metric.smooth_value,
        ).score
        for one in counts
    ]
    assert 0 < np.mean(np.array(expected) == 0) < 0.9
    np.testing.assert_allclose(bleu_of(counts), expected, rtol=1e-9)
