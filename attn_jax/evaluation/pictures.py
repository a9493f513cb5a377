"""What the viewer shows of sentences besides weights: value norms and the like."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_jax.evaluation.assess import Assessment


def pictures(translator: Any, assessment: Assessment) -> dict[str, dict[int, np.ndarray]]:
    """Arrays for the viewer, by what they show and the place of the sentence.

    Args:
      translator: has `align`, `value_sizes`, `self_attention` and `sums_over_alignments`.
      assessment: of it.

    Returns:
      `arr`, weights [L, N, T, S] of the hypothesis, and `reference`, of the reference with the end
      of the sentence; and of a model that sums over alignments `posterior` and
      `reference_posterior` [T, S], else, if it sums values as such, their `sizes` [L, N, 1, S]. Of
      a Transformer also `encoder` [L, N, S, S] and `decoder` [L, N, T, T], the weights of
      self-attention when it reads what it has written.
    """
    pictured = assessment.pictured
    if not pictured:
        return {}
    hypotheses = [one.hypothesis for one in pictured.values()]
    sources = [hypothesis.source for hypothesis in hypotheses]
    found: dict[str, Sequence[np.ndarray]] = {
        "arr": [hypothesis.weights for hypothesis in hypotheses],
        "reference": [one.reference for one in pictured.values()],
    }
    if translator.sums_over_alignments:
        references = [assessment.sentences[place]["reference"] for place in pictured]
        found["posterior"] = translator.align(sources, hypotheses, of="posterior")
        found["reference_posterior"] = translator.align(sources, references, of="posterior")
    elif sizes := translator.value_sizes(sources):
        found["sizes"] = sizes
    within = zip(*translator.self_attention(sources, hypotheses), strict=True)
    for part, weights in zip(("encoder", "decoder"), within, strict=True):
        if weights[0] is not None:
            found[part] = weights
    return {name: dict(zip(pictured, arrays, strict=True)) for name, arrays in found.items()}
