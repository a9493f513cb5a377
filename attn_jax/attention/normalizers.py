"""Normalizers: from scores [S] and a mask [S] to weights [S], exactly 0 where the mask is False.

If the mask is False everywhere, all weights and gradients are 0. Sparse ones, which are projections
onto the simplex, can give positions exactly 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.kernels.simplex import projection
from attn_jax.settings.value import setting

LEAST_ALPHA = 1.0001  # below, (α-1) e_j are so close together that float32 weights are 0.02 % off
MOST_ALPHA = 3  # beyond, weights are so steep in τ that float32 weights are 0.3 % off, or more


class Softmax(Normalizer):
    """exp(e_j) / Σ_k exp(e_k).

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1, equation 6.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return jax.nn.softmax(scores, where=mask)


class Temperature(Normalizer):
    """exp(e_j / τ) / Σ_k exp(e_k / τ).

    Sharper than softmax for `tau` below 1, flatter for `tau` above 1.

    Paper: Hinton, Vinyals and Dean 2015, section 2, equation 1.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    tau: float = setting(0.5, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # The highest score is subtracted first, since scores over a small τ may overflow.
        return jax.nn.softmax((scores - highest(scores, mask)) / self.tau, where=mask)


class Null(Normalizer):
    """exp(e_j) / (exp(n) + Σ_k exp(e_k)).

    A softmax over the sentence and one additional position, which has a learned score n and an
    annotation of zeros. The weight of that position is not returned, so that the others sum to at
    most 1. It corresponds to the NULL word of alignment models (Brown et al. 1993, section 4.1).

    Paper: Xiao et al. 2024, section 3.3.
    Cost: time T S, memory T S.
    Sum: at most 1.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"n": jnp.zeros(())}

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        with_null = jnp.concatenate([p["n"].astype(scores.dtype)[None], scores])
        somewhere = jnp.concatenate([mask.any()[None], mask])
        return jax.nn.softmax(with_null, where=somewhere)[1:]


class Sigmoid(Normalizer):
    """σ(e_j - log n), n positions in the window.

    Positions do not compete. The bias -log n makes the weights sum to about 1 for scores near 0.

    Paper: Ramapuram et al. 2025, section 2.
    Cost: time T S, memory T S.
    Sum: any.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        count = jnp.maximum(mask.sum(), 1).astype(scores.dtype)
        return jnp.where(mask, jax.nn.sigmoid(scores - jnp.log(count)), 0)


class Exponential(Normalizer):
    """exp(e_j), not normalised, for scores that are logarithms of weights.

    Paper: Graves 2013, section 5.1, equation 46.
    Cost: time T S, memory T S.
    Sum: any.
    """

    needs_logarithms = True

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # Larger weights would overflow, if not here, then as they are summed.
        bounded = jnp.minimum(scores, 80)
        return jnp.exp(jnp.where(mask, bounded, -jnp.inf))


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


def highest(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, ""]:
    """The largest score where the mask is True, as a constant, by which scores can be shifted."""
    lowest = jnp.finfo(scores.dtype).min
    return jax.lax.stop_gradient(jnp.max(scores, where=mask, initial=lowest))
