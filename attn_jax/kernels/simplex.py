"""Projections onto the probability simplex, the weights of entmax, with their known Jacobian.

The search for a threshold has no derivative, or a long one. The Jacobian needs the weights alone,
in both modes. Exact thresholds where there are some take less time than bisection; they cost a sort
at α = 1.5.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

BISECTIONS = 50  # they find a threshold in [-1, 0] to within 2^-50, near the precision of float64


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def projection(shifted: Float[Array, " S"], alpha: float) -> Float[Array, " S"]:
    """[z - τ]₊^{1/(α-1)}, τ in [-1, 0] such that the sum is 1, for z ≤ 0 with a maximum of 0."""
    known: dict[float, Callable] = {1.5: _threshold_15, 2.0: _threshold_2}
    threshold = known.get(alpha, _threshold_bisected)
    weights = _power(shifted - threshold(shifted, alpha), 1 / (alpha - 1))
    return weights / weights.sum()


@projection.defjvp
def _projection_jvp(alpha, primals, tangents):
    """The Jacobian of Peters et al. 2019, proposition 2: diag(s) - s sᵀ / Σ s, s = p^{2-α}."""
    (shifted,), (tangent,) = primals, tangents
    weights = projection(shifted, alpha)
    slopes = _power(weights, 2 - alpha)
    change = slopes * (tangent - slopes @ tangent / slopes.sum())
    return weights, change / (alpha - 1)


def plain_projection(
    shifted: Float[Array, " S"], alpha: float | Float[Array, ""]
) -> Float[Array, " S"]:
    """The same with τ by bisection, and a Newton step that makes τ a function of z and α."""
    exponent = 1 / (alpha - 1)
    found = jax.lax.stop_gradient(_threshold_bisected(shifted, alpha))
    excess = _power(shifted - found, exponent).sum() - 1
    slope = exponent * _power(shifted - found, exponent - 1).sum()
    slope = jnp.where(slope > 0, slope, 1)  # where nothing is above any threshold
    threshold = found + excess / jax.lax.stop_gradient(slope)
    return _power(shifted - threshold, exponent)


def _power(base: Float[Array, " S"], exponent: float | Float[Array, ""]) -> Float[Array, " S"]:
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
    # τ if the support were the k largest; the true k is the last whose z_k is above its own τ.
    thresholds = means - jnp.sqrt(jnp.maximum(1 - spread, 0) / ranks)
    return thresholds[(descending >= thresholds).sum() - 1]


@jax.jit
def _threshold_bisected(
    shifted: Float[Array, " S"], alpha: float | Float[Array, ""]
) -> Float[Array, ""]:
    # The sum of the weights falls as τ rises; `low` always has a sum of at least 1.
    def halve(_, interval):
        low, high = interval
        middle = (low + high) / 2
        enough = _power(shifted - middle, 1 / (alpha - 1)).sum() >= 1
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    interval = jnp.full_like(shifted[0], -1), jnp.zeros_like(shifted[0])
    low, _ = jax.lax.fori_loop(0, BISECTIONS, halve, interval)
    return low
