"""Normalizers that give positions exactly 0.

As in `normalizers`, if the mask is False everywhere, all weights and gradients are 0.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import highest
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer, widen
from attn_jax.kernels.simplex import plain_projection, projection
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


class LearnedEntmax(Normalizer):
    """Entmax with α = 1 + σ(a), a learned: each head finds how sparse it is.

    α is between softmax and sparsemax, at first 1.5, and at least 1.01. Its derivative is that of
    the equation that τ solves.

    Paper: Correia, Niculae and Martins 2019, section 3.2, proposition 1.
    Cost: time 50 T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"a": jnp.zeros(())}

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        alpha = jnp.maximum(1 + jax.nn.sigmoid(widen(p["a"])), 1.01).astype(scores.dtype)
        return jnp.where(mask, plain_projection(shifted(scores, mask, alpha), alpha), 0)


class TopK(Normalizer):
    """softmax over the k positions with the largest scores.

    Positions of equal scores at the border all stay.

    Paper: Zhao et al. 2019, section 3, equations 4 to 6 (explicit sparse Transformer). Bertsch et
    al. 2023 (Unlimiformer) attend to the k nearest keys, which is this with `dot`.
    Cost: time T S log S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    k: int = setting(8, low=1)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        known = jnp.where(mask, scores, -jnp.inf)
        least = jax.lax.top_k(jax.lax.stop_gradient(known), min(self.k, scores.size))[0][-1]
        return jax.nn.softmax(scores, where=mask & (scores >= least))


class Evidential(Normalizer):
    """softmax over the positions whose score is at least the mean of all.

    In training, others have a share of `floor`, which has a derivative and keeps logarithms finite.

    Paper: Chen, Itkina, Senanayake and Kochenderfer 2021, section 3.1, equations 5 and 7.
    Cost: time T S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    floor: float = setting(1e-6, above=0, below=1)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # Rounding must not exclude equal scores.
        above = scores - highest(scores, mask)
        mean = jnp.mean(above, where=mask) - 1e-5
        evident = above >= jnp.where(mask.any(), mean, 0)
        if past.rng is None:
            return jax.nn.softmax(above, where=mask & evident)
        return jax.nn.softmax(above + jnp.log(evident + self.floor), where=mask)


class Constrained(Normalizer):
    """What normalizers have in common that bound α_ij by f - Σ_{k<i} α_kj, f the `fertility`."""

    fertility: float = setting(2.0, above=0)
    reads = ("total",)

    def bounds(self, mask: Bool[Array, " S"], past: Past, dtype: Any) -> Float[Array, " S"]:
        """f - Σ_{k<i} α_kj, at least 0, and 0 where the mask is False."""
        return jnp.where(mask, jnp.maximum(self.fertility - past.total, 0), 0).astype(dtype)


class ConstrainedSoftmax(Constrained):
    """softmax with α_ij ≤ f - Σ_{k<i} α_kj: each position has f, its fertility, to give in all.

    Of the distributions below these bounds, the one nearest to softmax: positions that would exceed
    their bounds get these, and the others share the rest as in softmax. If all bounds together are
    less than 1, weights are the bounds; the paper appends a word with an unlimited one. The
    authors' program can also add a multiple of the bounds to the scores, so that words with much
    left to give are preferred, and take a fertility for each word from alignments.

    Paper: Malaviya, Ferreira and Martins 2018, section 3.1; Martins and Kreutzer 2017.
    Cost: time T S log S, memory T S.
    Sum: 1, or what the bounds sum to.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        bounds = self.bounds(mask, past, scores.dtype)
        # Positions in the order in which they reach their bounds as all weights are raised.
        above = jnp.where(mask, scores - highest(scores, mask), -jnp.inf)
        order = jnp.argsort(jnp.where(bounds > 0, jnp.log(bounds) - above, -jnp.inf))
        powers = jnp.exp(above)
        sorted_bounds, sorted_powers = bounds[order], powers[order]
        rest = jnp.maximum(1 - jnp.concatenate([jnp.zeros(1), jnp.cumsum(sorted_bounds)[:-1]]), 0)
        later = jnp.cumsum(sorted_powers[::-1])[::-1]
        # Position n is at its bound if, with all before it at theirs, its share would exceed it.
        full = sorted_powers * rest >= sorted_bounds * later
        full = jnp.cumprod(full).astype(bool)
        at_bound = jnp.zeros_like(mask).at[order].set(full) & mask
        left = jnp.maximum(1 - jnp.sum(bounds, where=at_bound), 0)
        return jnp.where(at_bound, bounds, left * jax.nn.softmax(scores, where=mask & ~at_bound))


class ConstrainedSparsemax(Constrained):
    """sparsemax with α_ij ≤ f - Σ_{k<i} α_kj: each position has f, its fertility, to give in all.

    Weights are e_j - τ, but at least 0 and at most these bounds, τ such that they sum to 1. If all
    bounds together are less than 1, weights are the bounds; the paper appends a word with an
    unlimited one.

    Paper: Malaviya, Ferreira and Martins 2018 (constrained sparsemax).
    Cost: time T S log S, memory T S.
    Sum: 1, or what the bounds sum to.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        bounds = self.bounds(mask, past, scores.dtype)
        scores = self._closer(scores, mask)
        # As τ falls, a position begins at e_j and is at its bound at e_j - b_j. Between two such
        # turns, the sum rises by 1 for each that has begun and is not at its bound.
        begins, ends = jax.lax.stop_gradient((scores, scores - bounds))
        turns = jnp.concatenate([begins, ends])
        order = jnp.argsort(-turns)
        falling = turns[order]
        slopes = jnp.cumsum(jnp.concatenate([mask, -mask.astype(jnp.int32)])[order])[:-1]
        sums = jnp.cumsum(slopes * (falling[:-1] - falling[1:]))
        turn = falling[jnp.argmax(sums >= 1)]  # the last before the sum is 1
        enough = (sums >= 1).any()
        at_bound = mask & ((ends >= turn) | ~enough)
        between = mask & (begins >= turn) & ~at_bound
        count = jnp.maximum(between.sum(), 1)
        rest = 1 - jnp.sum(bounds, where=at_bound)
        shares = scores - jnp.sum(scores, where=between) / count + rest / count
        return jnp.where(at_bound, bounds, jnp.where(between, shares, 0))

    def _closer(self, scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
        """Scores with the same weights, so close together that differences are precise.

        Where the next lower score is further away than any bound, it begins only after all above it
        are at theirs, however far away it is.
        """
        order = jnp.argsort(jnp.where(mask, -scores, jnp.inf))
        falling = scores[order]
        steps = jnp.where(mask[order][1:], falling[:-1] - falling[1:], 0)
        closer = -jnp.cumsum(jnp.pad(jnp.minimum(steps, self.fertility + 1), (1, 0)))
        return jnp.zeros_like(scores).at[order].set(closer)


def sparse(scores: Float[Array, " S"], mask: Bool[Array, " S"], alpha: float) -> Float[Array, " S"]:
    """The weights of `Entmax`."""
    return jnp.where(mask, projection(shifted(scores, mask, alpha), alpha), 0)


def shifted(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], alpha: float | Float[Array, ""]
) -> Float[Array, " S"]:
    """(α-1) e_j less the largest, and where the mask is False something that gets no weight."""
    # τ is at least -1, so that masked positions, at -2, get no weight. Lower scores are raised to
    # -2 too: their squares, and sums over them, may overflow.
    below = jnp.maximum((alpha - 1) * (scores - highest(scores, mask)), -2)
    return jnp.where(mask, below, -2)
