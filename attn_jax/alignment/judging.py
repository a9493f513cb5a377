"""What the weights of a pair tell without gold links: how sharp they are, and what they leave out.

Hallucinated text tends to look at a few positions, often the end of the source, and to leave out
most of the others.
"""

from collections.abc import Sequence

import numpy as np


def wass_to_unif(weights: np.ndarray) -> float:
    """The distance of the mean weights from uniform ones, ½ Σ_j |π_j - 1/S|, from 0 to 1.

    The Wasserstein distance at a cost of 1 from any position to any other. Guerreiro, Colombo,
    Piantanida and Martins 2023, section 3 (Wass-to-Unif).

    Args:
      weights: [T, S], not negative.
    """
    mean = weights.mean(axis=0)
    total = mean.sum()
    return float(np.abs(mean / (total or 1) - 1 / len(mean)).sum() / 2)


def judged(weights: np.ndarray, source_words: Sequence[int] | None = None) -> dict[str, float]:
    """Figures of the weights [T, S] of a pair.

    Args:
      weights: of one head, or the mean over several; those of all tokens, the special ones too.
      source_words: the word of each source token, -1 for a special one, if known.

    Returns:
      `sharpness`, the largest weight of a target token, and `coverage`, the weight that a source
      token gets from all target tokens, at most 1, both as means in percent; `wass_to_unif`; and
      `special`, the percentage of the weight that is on special tokens, such as that of the end.
    """
    shares = np.abs(weights) / np.maximum(np.abs(weights).sum(axis=1, keepdims=True), 1e-30)
    special = [place for place, word in enumerate(source_words or ()) if word < 0]
    return {
        "sharpness": 100 * float(shares.max(axis=1).mean()),
        "coverage": 100 * float(np.minimum(np.abs(weights).sum(axis=0), 1).mean()),
        "wass_to_unif": wass_to_unif(np.abs(weights)),
        "special": 100 * float(shares[:, special].sum(axis=1).mean()),
    }
