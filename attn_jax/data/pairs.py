"""Sentence pairs, as text and as ids."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from attn_jax.data.sentences import Sentence
from attn_jax.tokens import PAD

Side = TypeVar("Side", str, Sentence)  # as text, or cut into tokens


class Example(NamedTuple, Generic[Side]):
    """One sentence pair; `alignment` is the source position of each target token, where known."""

    source: Side
    target: Side
    alignment: np.ndarray | None = None


def pad(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Rows of ids as one array [B, length], `PAD` on the right."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
