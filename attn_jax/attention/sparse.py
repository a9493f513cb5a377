"""Sparse normalizers: projections onto the simplex, which can give positions exactly 0."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import highest
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.kernels.simplex import projection
from attn_jax.settings.value import setting

LEAST_ALPHA = 1.0001  # below, (α-1) e_j are so close together that float32 weights are 0.02 % off
MOST_ALPHA = 3  # beyond, weights are so steep in τ that float32 weights are 0.3 % off, or more


class Entmax(Normalizer):
    """[(α-1) e_j - τ]₊^{1/(α-1)}, τ such that the weights sum to 1.

    The weights p that maximise p · e plus the Tsallis α-entropy of p. It approaches softmax as α
    approaches 1, and is sparsemax at α = 2; above 3, float32 is not precise enough. τ is computed
    exactly at α = 1.5 and 2, and by bisection otherwise.

    Paper: Peters, Niculae and Martins 2019, section 3, algorithms 1 and 2.
    Cost: time T S log S at α = 1.5, some T S at 2, 50 T S at others, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    alpha: float = setting(1.5, low=LEAST_ALPHA, high=MOST_ALPHA)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return sparse(scores, mask, self.alpha)


class Sparsemax(Normalizer):
    """[e_j - τ]₊, τ such that the weights sum to 1.

    The point of the probability simplex that is closest to the scores.

    Paper: Martins and Astudillo 2016, section 2, equation 2; Michelot 1986 for τ.
    Cost: time T S for each of a few passes, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return sparse(scores, mask, 2.0)


def sparse(scores: Float[Array, " S"], mask: Bool[Array, " S"], alpha: float) -> Float[Array, " S"]:
    """The weights of `Entmax`."""
    # τ is at least -1, so that masked positions, at -2, get no weight. Lower scores are raised to
    # -2 too: their squares, and sums over them, may overflow.
    shifted = jnp.maximum((alpha - 1) * (scores - highest(scores, mask)), -2)
    shifted = jnp.where(mask, shifted, -2)
    return jnp.where(mask, projection(shifted, alpha), 0)
