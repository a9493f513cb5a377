"""Attention weights as text for a terminal."""

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size

from attn_jax.tokens import bracketed

SHADES = " ░▒▓█"  # of weights up to 0.1, 0.3, 0.5, 0.8 and 1


def strips(alignment: np.ndarray, source: Sequence[str], target: Sequence[str]) -> list[str]:
    """A line for each target token: a shade for each source token, and the one weighted most.

    Args:
      alignment: weights [T, S].
      source: S tokens.
      target: T tokens, end of sentence included.
    """
    width = max(map(cell_len, target))
    shades = np.array(list(SHADES))[np.digitize(alignment, (0.1, 0.3, 0.5, 0.8))]
    padded = [set_cell_size(token, width) for token in target]
    return [
        f"{token} |{''.join(row)}| {bracketed(source[weights.argmax()])} {weights.max():.2f}"
        for token, row, weights in zip(padded, shades, alignment, strict=True)
    ]
