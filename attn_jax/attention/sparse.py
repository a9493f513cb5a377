"""Sparse normalizers: projections onto the simplex, which can give positions exactly 0."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import highest
from attn_jax.attention.protocol import Normalizer, Past
from attn_jax.settings import setting

BISECTIONS = 50  # they find a threshold in [-1, 0] to within 2^-50, near the precision of float64
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

    alpha: float = setting(1.5, low=LEAST_ALPHA, high=MOST_ALPHA)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return projection(scores, mask, self.alpha)


class Sparsemax(Normalizer):
    """[e_j - τ]₊, τ such that the weights sum to 1.

    The point of the probability simplex that is closest to the scores.

    Paper: Martins and Astudillo 2016, section 2, equation 2; Michelot 1986 for τ.
    Cost: time T S for each of a few passes, memory T S.
    Sum: 1.
    """

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return projection(scores, mask, 2.0)


def projection(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], alpha: float
) -> Float[Array, " S"]:
    """The weights of `Entmax`."""
    # τ is at least -1, so that masked positions, at -2, get no weight. Lower scores are raised to
    # -2 too: their squares, and sums over them, may overflow.
    shifted = jnp.maximum((alpha - 1) * (scores - highest(scores, mask)), -2)
    shifted = jnp.where(mask, shifted, -2)
    return jnp.where(mask, _project(shifted, alpha), 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _project(shifted: Float[Array, " S"], alpha: float) -> Float[Array, " S"]:
    known: dict[float, Callable] = {1.5: _threshold_15, 2.0: _threshold_2}
    threshold = known.get(alpha, _threshold_bisected)
    weights = _power(shifted - threshold(shifted, alpha), 1 / (alpha - 1))
    return weights / weights.sum()


@_project.defjvp
def _project_jvp(alpha, primals, tangents):
    """The Jacobian of Peters et al. 2019, proposition 2: diag(s) - s sᵀ / Σ s, s = p^{2-α}."""
    (shifted,), (tangent,) = primals, tangents
    weights = _project(shifted, alpha)
    slopes = _power(weights, 2 - alpha)
    change = slopes * (tangent - slopes @ tangent / slopes.sum())
    return weights, change / (alpha - 1)


def _power(base: Float[Array, " S"], exponent: float) -> Float[Array, " S"]:
    # 0 where the base is not positive; the inner `where` keeps the gradient finite.
    positive = base > 0
    return jnp.where(positive, jnp.where(positive, base, 1) ** exponent, 0)


@functools.partial(jax.jit, static_argnums=1)  # else an eager call compiles the loop each time
def _threshold_2(shifted: Float[Array, " S"], alpha: float) -> Float[Array, ""]:
    # Michelot 1986: as long as the support is too large, its threshold is too low, so that the
    # threshold only rises. This usually takes a few passes, and is faster than sorting.
    def threshold(support: Bool[Array, " S"]) -> Float[Array, ""]:
        return (shifted.sum(where=support) - 1) / support.sum()

    def shrinks(state: tuple[Array, Array]) -> Bool[Array, ""]:
        before, support = state
        return (before != support).any()

    def shrink(state: tuple[Array, Array]) -> tuple[Array, Array]:
        _, support = state
        return support, support & (shifted > threshold(support))

    possible = shifted > -1
    return threshold(jax.lax.while_loop(shrinks, shrink, (~possible, possible))[1])


def _threshold_15(shifted: Float[Array, " S"], alpha: float) -> Float[Array, ""]:
    descending = -jnp.sort(-shifted)
    ranks = jnp.arange(1, shifted.size + 1).astype(shifted.dtype)
    means = jnp.cumsum(descending) / ranks
    # Σ_{j≤k} (z_j - mean_k)² for each k (Welford 1962): Σ z_j² - k mean_k² would lose its digits.
    before = jnp.concatenate([descending[:1], means[:-1]])
    spread = jnp.cumsum((1 - 1 / ranks) * (descending - before) ** 2)
    thresholds = means - jnp.sqrt(jnp.maximum(1 - spread, 0) / ranks)
    return thresholds[(descending >= thresholds).sum() - 1]


@functools.partial(jax.jit, static_argnums=1)
def _threshold_bisected(shifted: Float[Array, " S"], alpha: float) -> Float[Array, ""]:
    def halve(_, interval):
        low, high = interval
        middle = (low + high) / 2
        enough = _power(shifted - middle, 1 / (alpha - 1)).sum() >= 1
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    interval = jnp.full_like(shifted[0], -1), jnp.zeros_like(shifted[0])
    low, _ = jax.lax.fori_loop(0, BISECTIONS, halve, interval)
    return low
