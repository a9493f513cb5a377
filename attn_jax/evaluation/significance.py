"""Whether systems differ: over the sentences of a test set, and over seeds."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.significance import PairedTest
from scipy import stats

from attn_jax.evaluation.metrics import make_bleu


def bleu_differs(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], tokenizer: str
) -> float:
    """The p-value of two systems having one BLEU: sacrebleu's paired bootstrap, 1,000 samples.

    Koehn 2004. It is 1 where there is no difference, or no second sentence to tell by, of which
    sacrebleu's own count would say the opposite.
    """
    systems = [("first", list(first)), ("second", list(second))]
    metrics = {"bleu": make_bleu(tokenizer)}
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=1000)
    _, results = test()
    one, other = results["BLEU"]
    return 1.0 if one.score == other.score or len(references) < 2 else other.p_value


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
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(
        counts.shape[1], np.full(counts.shape[1], 1 / counts.shape[1]), samples
    )

    def difference(weights: np.ndarray) -> np.ndarray:
        parts, wholes = np.moveaxis(np.einsum("ds,nsk->nkd", weights, counts), 1, 0)
        ratios = parts / np.maximum(wholes, 1e-30)
        return ratios[0] - ratios[1]

    (observed,) = difference(np.ones((1, counts.shape[1])))
    far = np.abs(difference(drawn) - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (samples + 1))


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
