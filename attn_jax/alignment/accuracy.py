"""How often attention is where a token comes from, and how sharp each head's weights are."""

from collections.abc import Sequence

import numpy as np

from attn_jax.alignment.readings import shifted

SHIFTS = (-1, 0, 1)


def hits(alignment: np.ndarray, gold: np.ndarray, shift: int) -> np.ndarray:
    """Whether the largest weight of each target token is at the gold position.

    False where the shifted step does not exist, or several positions share the largest weight.

    Args:
      alignment: weights [T, S], end of sentence included.
      gold: the source position of each target token, [T - 1].
      shift: the weights of token t are those of step t + shift.
    """
    rows = shifted(alignment, shift)
    highest = rows.max(axis=1, keepdims=True)
    alone = (rows == highest).sum(axis=1) == 1
    return alone & (highest[:, 0] > 0) & (rows.argmax(axis=1) == gold)


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
