"""Normalizers: from scores [S] and a mask [S] to weights [S], exactly 0 where the mask is False.

A normalizer is a part (see `parts`). It computes in float32 at least and returns the weights in
the dtype of the scores. If the mask is False everywhere, all weights and gradients are 0.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.parts import Shapes, Sizes, part
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError


def softmax(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """exp(e_j) / Σ_k exp(e_k).

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1, equation 6.
    Cost: time T S, memory T S.
    Sum: 1.
    """
    return jax.nn.softmax(widen(scores), where=mask).astype(scores.dtype)


def temperature(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], *, tau: float = 0.5
) -> Float[Array, " S"]:
    """exp(e_j / τ) / Σ_k exp(e_k / τ).

    Sharper than softmax for `tau` below 1, flatter for `tau` above 1.

    Paper: Hinton, Vinyals and Dean 2015, section 2, equation 1.
    Cost: time T S, memory T S.
    Sum: 1.
    """
    if tau <= 0:
        raise InputError(f"temperature: tau must be more than 0, got {tau:g}")
    # The highest score is subtracted first, since scores over a small τ may overflow.
    wide = widen(scores)
    return softmax((wide - highest(wide, mask)) / tau, mask).astype(scores.dtype)


def highest(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, ""]:
    """The largest score where the mask is True, as a constant, by which scores can be shifted."""
    lowest = jnp.finfo(scores.dtype).min
    return jax.lax.stop_gradient(jnp.max(scores, where=mask, initial=lowest))


def _null_shapes(sizes: Sizes) -> Shapes:
    return {"n": ()}


@part(shapes=_null_shapes, initial={"n": 0.0})
def null(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], *, n: Float[Array, ""]
) -> Float[Array, " S"]:
    """exp(e_j) / (exp(n) + Σ_k exp(e_k)).

    A softmax over the sentence and one additional position, which has a learned score n and an
    annotation of zeros. The weight of that position is not returned, so that the others sum to at
    most 1. It corresponds to the NULL word of alignment models (Brown et al. 1993, section 4.1).

    Paper: Xiao et al. 2024, section 3.3.
    Cost: time T S, memory T S.
    Sum: at most 1.
    """
    wide = widen(scores)
    with_null = jnp.concatenate([jnp.asarray(n, wide.dtype)[None], wide])
    somewhere = jnp.concatenate([mask.any()[None], mask])
    return jax.nn.softmax(with_null, where=somewhere)[1:].astype(scores.dtype)


def sigmoid(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """σ(e_j - log n), n positions in the window.

    Positions do not compete. The bias -log n makes the weights sum to about 1 for scores near 0.

    Paper: Ramapuram et al. 2025, section 2.
    Cost: time T S, memory T S.
    Sum: any.
    """
    wide = widen(scores)
    count = jnp.maximum(mask.sum(), 1).astype(wide.dtype)
    weights = jax.nn.sigmoid(wide - jnp.log(count))
    return jnp.where(mask, weights, 0).astype(scores.dtype)


def exponential(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """exp(e_j), not normalised, for scores that are logarithms of weights.

    Paper: Graves 2013, section 5.1, equation 46.
    Cost: time T S, memory T S.
    Sum: any.
    """
    # Larger weights would overflow, if not here, then as they are summed.
    bounded = jnp.minimum(widen(scores), 80)
    return jnp.exp(jnp.where(mask, bounded, -jnp.inf)).astype(scores.dtype)
