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

    Koehn 2004.
    """
    systems = [("first", list(first)), ("second", list(second))]
    metrics = {"bleu": make_bleu(tokenizer)}
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=1000)
    _, results = test()
    return results["BLEU"][1].p_value


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
    signs = generator.integers(0, 2, (samples, len(differences)), dtype=np.int8) * 2 - 1
    drawn = np.abs(signs @ differences)
    # Sums of one set of numbers in two orders may differ in their last digits.
    return float((np.sum(drawn >= observed - 1e-9 * max(observed, 1)) + 1) / (samples + 1))


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
