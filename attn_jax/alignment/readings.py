"""From the attention weights of all layers and heads to those between words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.attention.head_names import head_name


class Reading(NamedTuple):
    """Which of a model's weights are taken as its alignment."""

    head: tuple[int, int] | None = None  # layer and head, from 0; None: the mean over all
    shift: int = 0  # the weights of step t + shift are those of target token t

    def __str__(self) -> str:
        part = "mean of all heads"
        if self.head:
            part = head_name(self.head[0] + 1, self.head[1] + 1)
        return f"{part}, shift {self.shift:+d}"


def shifted(alignment: np.ndarray, shift: int) -> np.ndarray:
    """The weights [..., T - 1, S] of each target token; zeros where the shifted step is missing.

    A model that attends from the state before a token and one that attends from the state after it
    may differ by one step in which weights are those of the token.

    Args:
      alignment: weights [..., T, S], end of sentence included.
      shift: the weights of token t are those of step t + shift.
    """
    count = alignment.shape[-2]
    steps = np.arange(count - 1) + shift
    inside = (steps >= 0) & (steps < count)
    return np.where(inside[:, None], alignment[..., np.clip(steps, 0, count - 1), :], 0)


def readings(layers: int, heads: int, shifts: Sequence[int] = (0, 1, -1, 2)) -> list[Reading]:
    """All readings of the weights of `layers` layers and `heads` heads, simplest first."""
    parts = [None, *np.ndindex(layers, heads)] if layers * heads > 1 else [None]
    return [Reading(part, shift) for shift in shifts for part in parts]


def of_head(weights: np.ndarray, reading: Reading) -> np.ndarray:
    """The weights [T, S] of the head of a reading, or the mean over all, from [L, N, T, S]."""
    return weights.mean(axis=(0, 1)) if reading.head is None else weights[reading.head]


def read(weights: np.ndarray, reading: Reading) -> np.ndarray:
    """The weights [T - 1, S] of each target token, from those of all layers and heads.

    Args:
      weights: [L, N, T, S], end of sentence included.
      reading: which weights to take.
    """
    return shifted(of_head(weights, reading), reading.shift)


def by_words(
    weights: np.ndarray, source: Sequence[int], target: Sequence[int], sizes: tuple[int, int]
) -> np.ndarray:
    """Converts weights between tokens to weights between words.

    Weights are summed over the tokens of a source word, and averaged over those of a target word.

    Args:
      weights: [T, S].
      source, target: the index, from 0, of the word to which each token belongs.
      sizes: the numbers of source and target words.

    Returns:
      Weights [target words, source words].
    """
    into = np.zeros((weights.shape[1], sizes[0]))
    into[np.arange(len(source)), source] = 1
    rows = np.zeros((sizes[1], len(target)))
    rows[target, np.arange(len(target))] = 1
    return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1) @ weights @ into


def masses(weights: Sequence[np.ndarray], reading: Reading) -> dict[str, float]:
    """Percentages of weight that do not contribute to links between words.

    Args:
      weights: of each sentence, [L, N, T, S], end of sentence included.
      reading: which weights are taken.

    Returns:
      `null_mass`, the mean weight of target words that is on no source word, and `end_mass`, the
      mean weight of the last step, which writes `EOS`, on the last source word.
    """
    alignments = [of_head(of_pair, reading) for of_pair in weights]
    of_words = [shifted(alignment, reading.shift) for alignment in alignments]
    nothing = np.concatenate([1 - rows.sum(axis=1) for rows in of_words])
    return {
        "null_mass": 100 * float(np.clip(nothing, 0, 1).mean()) if nothing.size else 0.0,
        "end_mass": 100 * float(np.mean([alignment[-1, -1] for alignment in alignments])),
    }
