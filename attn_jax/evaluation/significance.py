"""Whether systems differ significantly, over the sentences of a test set and over seeds."""

import functools
from collections.abc import Sequence

import numpy as np

from attn_jax.evaluation.metrics import bleu_of

# Sentences that a bootstrap needs. Resampled differences of fewer vary too little: this is how many
# of 2,000 equal pairs of systems (600 for BLEU) had p < 0.05, where 5 % should:
#
#   sentences        2      3      5     10     15     20     30     50    100
#   BLEU          36.2   23.8   14.5    9.7    6.8    7.3    5.7    6.2    6.2  %
#   ratios        28.3   23.4   15.2    7.6    7.1    6.1    7.0    6.0    4.4  %
#   exchanges      0.0    0.0    0.0    0.5    1.2    1.9    2.5    2.4    3.7  %  (of hits)
FEWEST = 20
SAMPLES = 10_000  # of a bootstrap: p-values of many comparisons, once adjusted, need small ones


def resampled_bleu(counts: np.ndarray, samples: int = SAMPLES) -> np.ndarray:
    """BLEU of a test set, and of bootstrap samples of its sentences, [1 + samples].

    The samples are those of Koehn 2004. Test sets of the same size have the same ones, so that
    differences of systems are paired, and so have all seeds, since a sentence that is hard for one
    seed is hard for another.

    Args:
      counts: the `bleu_counts` of one run, [N, 10].
      samples: number of bootstrap samples.
    """
    return bleu_of(_resampled(counts, samples))


def resampled_mean(values: np.ndarray, samples: int = SAMPLES) -> np.ndarray:
    """The mean over a test set, and over the samples of `resampled_bleu`, [1 + samples].

    Args:
      values: of each sentence, [N].
      samples: number of bootstrap samples.
    """
    return _resampled(values, samples) / len(values)


def resampled_ratio(counts: np.ndarray, samples: int = SAMPLES) -> np.ndarray:
    """Σ parts / Σ wholes over a test set, and over the samples of `resampled_bleu`, [1 + samples].

    Args:
      counts: of each sentence, the part and the whole, [N, 2].
      samples: number of bootstrap samples.
    """
    parts, wholes = _resampled(counts, samples).T
    return parts / np.maximum(wholes, 1e-30)


def exchanged(counts: np.ndarray, samples: int = 10000) -> np.ndarray:
    """Sums of counts whose signs are random, [samples], for approximate randomisation.

    The difference of two systems with random sentences swapped is that of their sums, since those
    of all systems have the same signs. Noreen 1989; Riezler and Maxwell 2005.

    Args:
      counts: of each sentence, such as edits or hits, [N].
      samples: number of samples, rounded down to a multiple of 100.
    """
    counts = np.asarray(counts, float)  # of floats, products are faster
    generator = np.random.default_rng(0)
    sums = [  # a hundred at a time, to save memory
        (generator.integers(0, 2, (100, len(counts))) * 2.0 - 1) @ counts
        for _ in range(samples // 100)
    ]
    return np.concatenate(sums)


def exchanged_p(observed: float, sums: np.ndarray) -> float:
    """The p-value of two systems having the same sum.

    The share of samples with at least the observed absolute difference. It holds for any number of
    sentences: of n, it cannot be below 2 / 2^n.

    Args:
      observed: the difference of the two sums of counts.
      sums: the difference of the sums that `exchanged` returns.
    """
    return float((np.sum(np.abs(sums) >= abs(observed)) + 1) / (len(sums) + 1))


def ratios_differ(
    first: Sequence[tuple[float, float]] | np.ndarray,
    second: Sequence[tuple[float, float]] | np.ndarray,
    samples: int = 1000,
) -> float:
    """The p-value of two systems having the same ratio Σ parts / Σ wholes, by paired bootstrap.

    Args:
      first, second: of each sentence, the part and the whole of the system.
      samples: number of bootstrap samples.

    Returns:
      The p-value; NaN for fewer than `FEWEST` sentences.
    """
    ours, theirs = (resampled_ratio(np.asarray(one), samples) for one in (first, second))
    return bootstrapped(ours - theirs, len(first))


def _resampled(values: np.ndarray, samples: int) -> np.ndarray:
    """Sums over a test set, and over bootstrap samples of it, [N, ...] to [1 + samples, ...]."""
    whole = np.asarray(values, float)
    # A few hundred samples at a time, to save memory.
    blocks = np.array_split(_drawn(len(whole), samples), 1 + samples // 500)
    return np.concatenate([whole.sum(axis=0)[None], *(b.astype(float) @ whole for b in blocks)])


@functools.lru_cache(maxsize=1)  # for all runs of a test set, since drawing takes seconds
def _drawn(sentences: int, samples: int) -> np.ndarray:
    """How often each of N sentences is in each sample, drawn with replacement, [samples, N]."""
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(sentences, np.full(sentences, 1 / sentences), samples)
    return drawn.astype(np.uint8)  # of over 255 sentences, none is drawn as often as that


def bootstrapped(differences: np.ndarray, sentences: int) -> float:
    """The p-value of a difference: the share of samples at least as far from it as it is from 0.

    Efron and Tibshirani 1993, chapter 16. NaN for fewer than `FEWEST` sentences. sacrebleu counts
    samples on one side only, which of equal systems finds twice as many to differ as its p-value
    says.

    Args:
      differences: that of the test set, and those of its samples.
      sentences: in the test set.
    """
    if sentences < FEWEST:
        return np.nan
    observed, *samples = differences
    far = np.abs(samples - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (len(samples) + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, so adjusted that one in twenty families has one below 0.05.

    Holm 1979. NaN, which stands for no test, stays and does not count.
    """
    adjusted, largest = [np.nan] * len(p_values), 0.0
    tested = [place for place in np.argsort(p_values) if not np.isnan(p_values[place])]
    for number, place in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - number) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of the mean over seeds. Student 1908.

    Args:
      values: one for each seed, at least two.
      confidence: between 0 and 1.
    """
    from scipy import stats  # takes half a second, which programs without intervals save

    error = stats.sem(values)
    if error == 0:
        return float(values[0]), float(values[0])
    low, high = stats.t.interval(confidence, len(values) - 1, np.mean(values), error)
    return float(low), float(high)


def expected_best(values: Sequence[float], trials: int, larger_is_better: bool = True) -> float:
    """The expected best of some trials, each drawn with replacement from those that were made.

    Dodge et al. 2019, "Show your work", section 3: the best of n has a value of at most v with the
    probability that a single trial has, to the power of n.

    Args:
      values: of the trials that were made.
      trials: n, how many are drawn.
      larger_is_better: whether the best is the largest.
    """
    ordered = np.sort(values) if larger_is_better else -np.sort(-np.asarray(values))
    at_most = (np.arange(len(ordered) + 1) / len(ordered)) ** trials
    return float(np.diff(at_most) @ ordered)
