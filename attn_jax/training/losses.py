"""The output layer and its loss, as functions of the readout's features."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def cross_entropy(
    logits: Float[Array, "... V"], targets: Int[Array, "..."], label_smoothing: float = 0.0
) -> Float[Array, "..."]:
    """-log p(target) in nats, against targets that leave a share to the whole vocabulary.

    Szegedy et al. 2016, section 7, for the smoothing.
    """
    log_probabilities = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1)[..., 0]
    return -(1 - label_smoothing) * chosen - label_smoothing * log_probabilities.mean(axis=-1)


def mean_loss(
    features: Float[Array, "B T F"],
    output: Callable[[Array], Array],
    targets: Int[Array, "B T"],
    mask: Bool[Array, "B T"],
    label_smoothing: float,
) -> Float[Array, ""]:
    """Mean cross-entropy, in nats per real target token, end of sentence included."""
    losses = cross_entropy(output(features), targets, label_smoothing)
    return jnp.sum(jnp.where(mask, losses, 0)) / jnp.maximum(mask.sum(), 1)


def coverage_loss(
    alignment: Float[Array, "B L N T S"], mask: Bool[Array, "B T"]
) -> Float[Array, ""]:
    """Σ_j min(α_ij, Σ_{k<i} α_kj): what is attended again, a mean over real target tokens.

    Also a mean over layers and heads. See, Liu and Manning 2017, section 2.3, equations 10 and 12.
    """
    covered = jnp.cumsum(alignment, axis=3) - alignment
    again = jnp.minimum(alignment, covered).sum(axis=-1).mean(axis=(1, 2))
    return jnp.sum(jnp.where(mask, again, 0)) / jnp.maximum(mask.sum(), 1)
