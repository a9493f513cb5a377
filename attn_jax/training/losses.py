"""Losses of target tokens, [B, T], padding included, in nats or without a unit."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def coverage_loss(alignment: Float[Array, "B L N T S"]) -> Float[Array, "B T"]:
    """Σ_j min(α_ij, Σ_{k<i} α_kj): repeated attention, the mean over layers and heads.

    See, Liu and Manning 2017, section 2.3, equations 10 and 12.
    """
    covered = jnp.cumsum(alignment, axis=3) - alignment
    return jnp.minimum(alignment, covered).sum(axis=-1).mean(axis=(1, 2))


def guided_loss(
    weights: Float[Array, "B T S"], links: Float[Array, "B T S"]
) -> Float[Array, "B T"]:
    """-Σ_j A_ij log α_ij: the cross-entropy of the weights with given links.

    Chen, Matusov, Khadivi and Peter 2016, section 3.

    Args:
      weights: α. Those of a token with a sum of more than 1, which some normalizers give, are
        rescaled to a sum of 1, since otherwise larger weights would always lower the loss. Each is
        then raised to at least 1e-30, since sparse weights may be zero where there is a link.
      links: A, which sums to 1 over the source for each linked token, and to 0 for the others.
    """
    shares = weights / jnp.maximum(weights.sum(axis=-1, keepdims=True), 1)
    return -(links * jnp.log(jnp.maximum(shares, 1e-30))).sum(axis=-1)
