"""How far links are from gold links of human annotators: the alignment error rate."""

from collections.abc import Sequence

import numpy as np

from attn_jax.data.alignment_files import Gold, Links
from attn_jax.errors import InputError


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
