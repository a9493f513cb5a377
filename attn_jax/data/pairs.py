"""Sentence pairs, as text and as ids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.data.pharaoh import Links
from attn_jax.tokens import PAD


class Example(NamedTuple):
    """One sentence pair; `alignment` is the source position of each target token, where known."""

    source: str
    target: str
    alignment: np.ndarray | None = None


class Pair(NamedTuple):
    """Source and target ids, without `EOS`, and the links between them where known."""

    source: Sequence[int]
    target: Sequence[int]
    links: Links | None = None


def pad(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Rows of ids as one array [B, length], `PAD` on the right."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
