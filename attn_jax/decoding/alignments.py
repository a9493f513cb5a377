"""From the weights of a model to links between words."""

import numpy as np


def links(alignment: np.ndarray) -> list[tuple[int, int]]:
    """The source position of the largest weight for each target token, as (source, target).

    Args:
      alignment: weights [T, S]; the last row, the end of the sentence, makes no link.
    """
    return [(int(row.argmax()), step) for step, row in enumerate(alignment[:-1])]


def pharaoh(pairs: list[tuple[int, int]]) -> str:
    """Links as a line of the Pharaoh format, `source-target`, counted from 0."""
    return " ".join(f"{source}-{target}" for source, target in pairs)
