"""Whether systems differ: over the sentences of a test set, and over seeds."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from attn_jax.evaluation.metrics import make_bleu


def bleu_differs(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    references: Sequence[str],
    tokenizer: str,
    samples: int = 1000,
) -> float:
    """The p-value of two systems having one BLEU, the mean over their seeds: paired bootstrap.

    Sentences are drawn for all seeds at once, since what is hard for one seed is hard for another.
    Of one seed this is sacrebleu's own test, p-value included, which is one-sided. Koehn 2004.

    Args:
      first, second: of each seed, what either system wrote for every sentence.
      references: of every sentence.
      tokenizer: of sacrebleu.
      samples: how often is drawn.
    """
    metric = make_bleu(tokenizer)

    def counted(texts: Sequence[str]) -> np.ndarray:
        scores = (
            metric.corpus_score([text], [[reference]])
            for text, reference in zip(texts, references, strict=True)
        )
        return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])

    def bleu(counts: np.ndarray) -> float:
        correct, total, lengths = np.split(counts, [4, 8])
        smoothing = metric.smooth_method, metric.smooth_value
        return metric.compute_bleu([*correct], [*total], *lengths, *smoothing).score

    counts = np.array([[counted(texts) for texts in seeds] for seeds in (first, second)])

    def difference(weights: np.ndarray) -> np.ndarray:
        drawn = np.einsum("ds,ijsk->dijk", weights, counts)
        scores = np.apply_along_axis(bleu, -1, drawn).mean(axis=-1)
        return scores[:, 0] - scores[:, 1]

    observed, drawn = _bootstrapped(difference, len(references), samples)
    if observed == 0 or len(references) < 2:
        return 1.0  # a draw of one sentence is that sentence, which would seem certain
    distances = np.abs(drawn)
    far = distances - distances.mean() > abs(observed)
    return float((far.sum() + 1) / (samples + 1))


def counts_differ(first: Sequence[float], second: Sequence[float], samples: int = 10000) -> float:
    """The p-value of two systems having one sum over the sentences: approximate randomisation.

    How often a difference at least as large comes about when the two change places in sentences
    drawn at random. Noreen 1989; Riezler and Maxwell 2005.

    Args:
      first, second: of each sentence, what is counted of either system, such as edits or hits.
      samples: how often is drawn.
    """
    differences = np.subtract(first, second, dtype=float)
    observed = abs(differences.sum())
    generator = np.random.default_rng(0)
    reached = 0
    for _ in range(samples // 100):  # a hundred at a time, to hold few of them
        signs = generator.integers(0, 2, (100, len(differences))) * 2.0 - 1
        # Sums of one set of numbers in two orders may differ in their last digits.
        reached += np.sum(np.abs(signs @ differences) >= observed - 1e-9 * max(observed, 1))
    return float((reached + 1) / (samples // 100 * 100 + 1))


def ratios_differ(
    first: Sequence[tuple[float, float]],
    second: Sequence[tuple[float, float]],
    samples: int = 1000,
) -> float:
    """The p-value of two systems having one ratio Σ parts / Σ wholes: paired bootstrap.

    How often the difference in sentences drawn with replacement is as far from the observed one as
    that is from none. Efron and Tibshirani 1993, chapter 16.

    Args:
      first, second: of each sentence, part and whole of either system.
      samples: how often is drawn.
    """
    counts = np.array([first, second], float)  # [2, sentences, 2]

    def difference(weights: np.ndarray) -> np.ndarray:
        parts, wholes = np.moveaxis(np.einsum("ds,nsk->nkd", weights, counts), 1, 0)
        ratios = parts / np.maximum(wholes, 1e-30)
        return ratios[0] - ratios[1]

    observed, drawn = _bootstrapped(difference, counts.shape[1], samples)
    if counts.shape[1] < 2:
        return 1.0  # as of BLEU
    far = np.abs(drawn - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (samples + 1))


def _bootstrapped(
    difference: Callable[[np.ndarray], np.ndarray], sentences: int, samples: int
) -> tuple[float, np.ndarray]:
    """A difference, and what it is in sentences drawn with replacement.

    Args:
      difference: [D], from how often each draw has each sentence [D, N].
      sentences: N.
      samples: D.
    """
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(sentences, np.full(sentences, 1 / sentences), samples)
    (observed,) = difference(np.ones((1, sentences), int))
    return observed, difference(drawn)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Where the mean over all seeds lies with this confidence. Student 1908.

    Args:
      values: of at least two seeds.
      confidence: as a share of 1.
    """
    error = stats.sem(values)
    if error == 0:
        return float(values[0]), float(values[0])
    low, high = stats.t.interval(confidence, len(values) - 1, np.mean(values), error)
    return float(low), float(high)
