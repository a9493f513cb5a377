"""Whether systems differ significantly, over the sentences of a test set and over seeds."""

from collections.abc import Callable, Sequence

import numpy as np

from attn_jax.evaluation.metrics import make_bleu

# Sentences that a bootstrap needs. Resampled differences of fewer vary too little: this is how many
# of 2,000 equal pairs of systems (600 for BLEU) had p < 0.05, where 5 % should:
#
#   sentences        2      3      5     10     15     20     30     50    100
#   bleu_differs  36.2   23.8   14.5    9.7    6.8    7.3    5.7    6.2    6.2  %
#   ratios_differ 28.3   23.4   15.2    7.6    7.1    6.1    7.0    6.0    4.4  %
#   counts_differ  0.0    0.0    0.0    0.5    1.2    1.9    2.5    2.4    3.7  %  (of hits)
FEWEST = 20


def bleu_differs(first: np.ndarray, second: np.ndarray, samples: int = 1000) -> float:
    """The p-value of two systems having the same BLEU, the mean over seeds, by paired bootstrap.

    All seeds share the resampled sentences, since a sentence that is hard for one seed is hard for
    another. The samples are those of Koehn 2004. sacrebleu counts them on one side only, which of
    equal systems finds twice as many to differ as its p-value says.

    Args:
      first, second: of each seed, the `bleu_counts` of the system, [I, N, 10].
      samples: number of bootstrap samples.

    Returns:
      The p-value; NaN for fewer than `FEWEST` sentences.
    """
    metric = make_bleu("none")  # for its smoothing, which is that of all tokenisations
    smoothing = metric.smooth_method, metric.smooth_value
    counts = np.array([first, second])

    def bleu(counts: np.ndarray) -> float:
        correct, total, (said, wanted) = np.split(counts, [4, 8])
        return metric.compute_bleu([*correct], [*total], said, wanted, *smoothing).score

    def difference(weights: np.ndarray) -> np.ndarray:
        drawn = np.einsum("DN,IJNK->DIJK", weights, counts)
        scores = np.apply_along_axis(bleu, -1, drawn).mean(axis=-1)
        return scores[:, 0] - scores[:, 1]

    return _bootstrapped(difference, counts.shape[2], samples)


def counts_differ(
    first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray, samples: int = 10000
) -> float:
    """The p-value of two systems having the same sum, by approximate randomisation.

    The share of samples, in which the systems are swapped in random sentences, with at least the
    observed absolute difference. Noreen 1989; Riezler and Maxwell 2005. It holds for any number of
    sentences: of n, it cannot be below 2 / 2^n.

    Args:
      first, second: of each sentence, a count for the system, such as edits or hits.
      samples: number of samples, rounded down to a multiple of 100.
    """
    differences = np.subtract(first, second, dtype=float)  # of floats, products are faster
    observed = abs(differences.sum())
    generator = np.random.default_rng(0)
    reached = 0
    for _ in range(samples // 100):  # a hundred at a time, to save memory
        signs = generator.integers(0, 2, (100, len(differences))) * 2.0 - 1
        reached += np.sum(np.abs(signs @ differences) >= observed)
    return float((reached + 1) / (samples // 100 * 100 + 1))


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
    counts = np.array([first, second], float)  # [2, sentences, 2]

    def difference(weights: np.ndarray) -> np.ndarray:
        parts, wholes = np.moveaxis(np.einsum("DN,INK->IKD", weights, counts), 1, 0)
        ratios = parts / np.maximum(wholes, 1e-30)
        return ratios[0] - ratios[1]

    return _bootstrapped(difference, counts.shape[1], samples)


def _bootstrapped(
    difference: Callable[[np.ndarray], np.ndarray], sentences: int, samples: int
) -> float:
    """The share of samples at least as far from the observed difference as that is from 0.

    Efron and Tibshirani 1993, chapter 16. NaN for fewer than `FEWEST` sentences.

    Args:
      difference: maps the number of times that each sample holds each sentence, [D, N], to [D].
      sentences: N.
      samples: D, of sentences with replacement.
    """
    if sentences < FEWEST:
        return np.nan
    generator = np.random.default_rng(0)
    weights = generator.multinomial(sentences, np.full(sentences, 1 / sentences), samples)
    (observed,) = difference(np.ones((1, sentences), int))
    far = np.abs(difference(weights) - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (samples + 1))


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
