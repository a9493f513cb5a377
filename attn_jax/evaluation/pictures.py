"""What the viewer shows of the first sentences besides weights: value norms and posteriors."""

from typing import Any

import numpy as np

from attn_jax.evaluation.assess import Assessment


def pictures(translator: Any, assessment: Assessment) -> dict[str, list[np.ndarray]]:
    """Arrays for the viewer, by what they show, one for each of the first sentences.

    Args:
      translator: has `align`, `value_sizes` and `sums_over_alignments`.
      assessment: of it.

    Returns:
      `reference`, weights [L, N, T, S] of the reference, with the end of the sentence; and of a
      model that sums over alignments `posterior` and `reference_posterior` [T, S], else, if it sums
      values as such, their `sizes` [L, N, 1, S].
    """
    hypotheses = assessment.hypotheses
    if not hypotheses:
        return {}
    found = {"reference": assessment.references}
    sources = [hypothesis.source for hypothesis in hypotheses]
    if translator.sums_over_alignments:
        references = [one["reference"] for one in assessment.sentences[: len(hypotheses)]]
        found["posterior"] = translator.align(sources, hypotheses, of="posterior")
        found["reference_posterior"] = translator.align(sources, references, of="posterior")
    elif sizes := translator.value_sizes(sources):
        found["sizes"] = sizes
    return found
