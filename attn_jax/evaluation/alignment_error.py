"""How often attention agrees with the gold alignment, and how sharp each head's weights are."""

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from attn_jax.errors import InputError

SHIFTS = (-1, 0, 1)


def hits(alignment: np.ndarray, gold: np.ndarray, shift: int) -> np.ndarray:
    """Whether the largest weight of each target token is at the gold position.

    False where the shifted step does not exist, or several positions share the largest weight.

    Args:
      alignment: weights [T, S], end of sentence included.
      gold: the source position of each target token, [T - 1].
      shift: the weights of token t are those of step t + shift. A model that attends from the state
        before a word and one that attends from the state after it may differ by one step.
    """
    steps = np.arange(len(gold)) + shift
    answered = (steps >= 0) & (steps < len(alignment))
    rows = alignment[steps.clip(0, len(alignment) - 1)]
    largest = rows == rows.max(axis=1, keepdims=True)
    alone = (largest.sum(axis=1) == 1) & (rows.max(axis=1) > 0)
    return answered & alone & (rows.argmax(axis=1) == gold)


def alignment_accuracy(
    alignments: Sequence[np.ndarray], golds: Sequence[np.ndarray]
) -> tuple[float, int]:
    """The percentage of hits with the best constant shift, and that shift."""
    pairs = list(zip(alignments, golds, strict=True))

    def accuracy(shift: int) -> float:
        return 100 * float(np.concatenate([hits(*pair, shift) for pair in pairs]).mean())

    accuracies = {shift: accuracy(shift) for shift in SHIFTS}
    best = max(SHIFTS, key=lambda shift: (accuracies[shift], -abs(shift)))
    return accuracies[best], best


def by_head(
    weights: Sequence[np.ndarray], golds: Sequence[np.ndarray] | None
) -> list[dict[str, float | int]]:
    """The sharpness of each head, and its accuracy where gold alignments are known.

    Args:
      weights: of each sentence, [L, N, T, S].
      golds: of each sentence, the source position of each target token, [T - 1]; or None.

    Returns:
      For each layer and head: `layer` and `head`, counted from 1; `sharpness`, the mean over steps
      of the largest weight, in percent; and with `golds`, `alignment_accuracy` and
      `alignment_shift`.
    """
    layers, heads, *_ = weights[0].shape
    figures = []
    for layer, head in np.ndindex(layers, heads):
        own = [one[layer, head] for one in weights]
        sharpness = 100 * float(np.concatenate([one.max(axis=1) for one in own]).mean())
        entry = {"layer": layer + 1, "head": head + 1, "sharpness": sharpness}
        if golds is not None:
            accuracy, shift = alignment_accuracy(own, golds)
            entry |= {"alignment_accuracy": accuracy, "alignment_shift": shift}
        figures.append(entry)
    return figures


def alignment_counts(links: Sequence[Set], golds: Sequence[Any]) -> np.ndarray:
    """|A ∩ P|, |A ∩ S|, |A| and |S| of each sentence, [sentences, 4]."""
    return np.array(
        [
            (len(own & gold.possible), len(own & gold.sure), len(own), len(gold.sure))
            for own, gold in zip(links, golds, strict=True)
        ]
    )


def alignment_error(links: Sequence[Set], golds: Sequence[Any]) -> dict[str, float]:
    """Agreement with gold links, in percent over all sentences. Och and Ney 2003, section 5.2.

    Args:
      links: of each sentence, A, as pairs (source, target).
      golds: of each sentence, with links `sure`, S, and `possible`, P, which include the sure ones.

    Returns:
      `precision` |A ∩ P| / |A|, `recall` |A ∩ S| / |S|, `f1`, their harmonic mean, and
      `alignment_error_rate`, 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|).

    Raises:
      InputError: there are no links, or no sure gold links.
    """
    right, found, made, sure = alignment_counts(links, golds).sum(axis=0).tolist()
    if not made or not sure:
        raise InputError("no alignment error without links and sure gold links")
    precision, recall = right / made, found / sure
    return {
        "alignment_error_rate": 100 * (1 - (right + found) / (made + sure)),
        "precision": 100 * precision,
        "recall": 100 * recall,
        "f1": 200 * precision * recall / max(precision + recall, 1e-30),
    }
