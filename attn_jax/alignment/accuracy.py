"""How often attention is where a token comes from, how sharp it is, and how wrong links are."""

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.alignment.units import shifted
from attn_jax.data.alignment_files import Gold, Links
from attn_jax.errors import InputError

SHIFTS = (0, -1, 1)  # of equally good ones, the first is taken


class Counts(NamedTuple):
    """What is summed over sentences, for each of L layers and N heads."""

    steps: int
    largest: np.ndarray  # the largest weight of each step, [L, N]
    tokens: int  # those with known gold positions
    hits: np.ndarray  # at each of `SHIFTS`, [X, L, N]


def hits(alignment: np.ndarray, gold: np.ndarray, shift: int) -> np.ndarray:
    """Whether the largest weight of each target token is at the gold position, [..., T - 1].

    False where the shifted step does not exist, or several positions share the largest weight.

    Args:
      alignment: weights [..., T, S], end of sentence included.
      gold: the source position of each target token, [T - 1].
      shift: the weights of token t are those of step t + shift.
    """
    rows = shifted(alignment, shift)
    highest = rows.max(axis=-1, keepdims=True)
    alone = (rows == highest).sum(axis=-1) == 1
    return alone & (highest[..., 0] > 0) & (rows.argmax(axis=-1) == gold)


def counted(weights: np.ndarray, gold: np.ndarray | None) -> Counts:
    """The counts of one sentence.

    Args:
      weights: [L, N, T, S], end of sentence included.
      gold: the source position of each target token, [T - 1]; None if unknown.
    """
    layers, heads, steps, _ = weights.shape
    largest = weights.max(axis=-1).sum(axis=-1)
    if gold is None:
        return Counts(steps, largest, 0, np.zeros((len(SHIFTS), layers, heads), int))
    correct = np.stack([hits(weights, gold, shift).sum(axis=-1) for shift in SHIFTS])
    return Counts(steps, largest, len(gold), correct)


def by_head(counts: Iterable[Counts]) -> list[dict[str, float | int]]:
    """The sharpness of each head, and its accuracy where gold alignments are known.

    Returns:
      For each layer and head: `layer` and `head`, counted from 1; `sharpness`, the mean over steps
      of the largest weight, in percent; and with gold alignments `alignment_accuracy`, the
      percentage of hits with the best constant shift, and `alignment_shift`.
    """
    sums = (functools.reduce(operator.add, each) for each in zip(*counts, strict=True))
    steps, largest, tokens, correct = sums
    figures = []
    for place in np.ndindex(largest.shape):
        layer, head = place
        sharpness = 100 * float(largest[place]) / steps
        entry = {"layer": layer + 1, "head": head + 1, "sharpness": sharpness}
        if tokens:
            best = int(correct[:, layer, head].argmax())
            accuracy = 100 * float(correct[best, layer, head]) / tokens
            entry |= {"alignment_accuracy": accuracy, "alignment_shift": SHIFTS[best]}
        figures.append(entry)
    return figures


def alignment_counts(links: Sequence[Links], golds: Sequence[Gold]) -> np.ndarray:
    """|A ∩ P|, |A ∩ S|, |A| and |S| of each sentence, [sentences, 4]."""
    return np.array(
        [
            (len(made & gold.possible), len(made & gold.sure), len(made), len(gold.sure))
            for made, gold in zip(links, golds, strict=True)
        ]
    )


def alignment_error(links: Sequence[Links], golds: Sequence[Gold]) -> dict[str, float]:
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
    of_possible, of_sure, made, sure = alignment_counts(links, golds).sum(axis=0).tolist()
    if not made or not sure:
        raise InputError("no alignment error without links and sure gold links")
    precision, recall = of_possible / made, of_sure / sure
    return {
        "alignment_error_rate": 100 * (1 - (of_possible + of_sure) / (made + sure)),
        "precision": 100 * precision,
        "recall": 100 * recall,
        "f1": 200 * precision * recall / max(precision + recall, 1e-30),
    }
