"""Checks that only the positions of the sentence matter."""

import numpy as np
from jaxtyping import Bool

from attn_jax.checks.subject import TOLERANCE, Inputs, Numbers, Subject, all_finite, difference


def masked(subject: Subject) -> str | None:
    """Sentences of a batch are padded with whatever the encoder makes of padding."""
    inputs = subject.inputs()
    for mode, rng in subject.modes.items():
        for mask in subject.masks():
            fillings = (_filled(inputs, mask, at) for at in (-3.0, 3.0))
            found = [subject.at_once(subject.p, filled, mask, rng) for filled in fillings]
            weight = max(np.abs(weights[:, ~mask]).max() for _, weights in found)
            if weight > 0:
                return f"positions where the mask is False get a weight of {weight:.2g} {mode}"
            change = difference(*found)
            if change > TOLERANCE:
                return (
                    "what lies where the mask is False changes weights or contexts by "
                    f"{change:.2g} {mode}"
                )
    return None


def _filled(inputs: Inputs, mask: Bool[np.ndarray, " S"], at: float) -> Inputs:
    """Inputs with other annotations and word vectors where the mask is False."""

    def filled(vectors: Numbers) -> np.ndarray:
        size = vectors.shape[1]
        direction = np.sign(np.sin(1 + np.arange(size))) * size**-0.25
        return np.where(mask[:, None], vectors, np.float32(at * direction))

    return Inputs(inputs.queries, filled(inputs.annotations), filled(inputs.embeddings))


def padded(subject: Subject) -> str | None:
    """A sentence may stand beside a longer one; with an rng, noise may depend on the length."""
    inputs, mask = subject.inputs(), subject.masks()[0]
    more = subject.length // 3
    padding = (0, more), (0, 0)
    vectors = (np.pad(each, padding) for each in (inputs.annotations, inputs.embeddings))
    longer = Inputs(inputs.queries, *vectors)
    contexts, weights = subject.at_once(subject.p, inputs, mask, None)
    found = subject.at_once(subject.p, longer, np.pad(mask, (0, more)), None)
    change = difference((contexts, weights), (found[0], found[1][:, : subject.length]))
    if change <= TOLERANCE:
        return None
    return (
        f"weights or contexts of a sentence change by {change:.2g} when it is padded from "
        f"{subject.length} to {subject.length + more} positions"
    )


def fully_masked(subject: Subject) -> str | None:
    """Some rows of a batch may be empty."""
    inputs, nowhere = subject.inputs(), np.zeros(subject.length, bool)
    made_by_gate = subject.mechanism.gate.overrides("context")  # perhaps of no values
    for mode, rng in subject.modes.items():
        contexts, weights = subject.at_once(subject.p, inputs, nowhere, rng)
        if np.any(weights) or (np.any(contexts) and not made_by_gate):
            return f"weights or contexts are not all 0 where the mask is False everywhere, {mode}"
        if not all_finite(subject.gradient(subject.p, inputs, nowhere, rng)):
            return f"gradients are not finite where the mask is False everywhere, {mode}"
    return None
