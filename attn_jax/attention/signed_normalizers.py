"""Normalizers whose weights may be negative."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.settings.value import setting


class Differential(Normalizer):
    """softmax(e) - λ softmax(u), λ = exp(a · b) - exp(c · d) + λ_l, λ_l = 0.8 - 0.6 exp(-0.3 l).

    Two scores with separate parameters, such as two of `projected(scaled_dot)`; what both see
    equally is subtracted. l is the layer of the decoder, from 0. a, b, c and d are the paper's
    λ_q1, λ_k1, λ_q2 and λ_k2, which all heads share there; here each head has its own. The paper
    normalises the context of each head and multiplies it with 1 - λ_l: take the gate `rms_norm`,
    whose factors can learn this.

    Paper: Ye et al. 2025, section 2.1, equations 1 to 3.
    Cost: time T S, memory T S.
    Sum: 1 - λ.
    """

    scores = 2
    non_negative = False
    reads = ("layer",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rngs = jax.random.split(rng, 4)
        named = zip("abcd", rngs, strict=True)
        return {name: 0.1 * jax.random.normal(one, (Q,)) for name, one in named}

    def weights(
        self, p: Any, scores: Float[Array, "2 S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        first = 0.8 - 0.6 * jnp.exp(-0.3 * past.layer)
        lambda_ = jnp.exp(p["a"] @ p["b"]) - jnp.exp(p["c"] @ p["d"]) + first
        seen, noise = jax.nn.softmax(scores, where=mask)
        return seen - lambda_.astype(scores.dtype) * noise


class Continuous(Normalizer):
    """F r, r_n = N(μ; μ_n, σ² + σ_n²): attention to a stretch of the sentence as a curve.

    The values, at x_j = j/S, are fitted by a curve Σ_n B_n ψ_n(x), by ridge regression, with bells
    ψ_n = N(x; μ_n, σ_n²); B = Hᵀ F. The context is the mean of this curve under a normal
    distribution, B r, whose μ and σ² are the mean and the variance of x under softmax(e). So
    weights are smooth over neighbours, may be slightly negative, and sum to about 1.

    There are `bells` of each width σ_n, 0.1 and 0.5, evenly spaced in [0, 1]. σ² is at least
    (1/S)²/12, the variance within a word: a choice made here. In the authors' program, an attention
    that takes μ and σ² from softmax adds the context of softmax too; here it is the curve's alone.
    It fits words at (j - ½)/S, with a ridge of 0.01. The paper has a sparse density, the truncated
    parabola, too.

    Paper: Martins et al. 2020, the continuous softmax attention, and its program deep-spin/quati.
    Cost: time T S (1 + N) + S N² + N³ for N bells in all, memory T S + S N.
    Sum: about 1, less where the distribution reaches beyond the sentence.
    """

    non_negative = False
    positional = True

    bells: int = setting(16, low=2)
    ridge: float = setting(0.1, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # Of the sentence, not of the step: computed once.
        length = jnp.maximum(past.mask.sum(), 1).astype(scores.dtype)
        x = jnp.cumsum(past.mask).astype(scores.dtype) / length
        centres = jnp.tile(jnp.linspace(0, 1, self.bells, dtype=scores.dtype), 2)
        widths = jnp.repeat(jnp.array([0.1, 0.5], scores.dtype), self.bells)
        G = jnp.where(past.mask, bell(x, centres[:, None], widths[:, None] ** 2), 0)  # [N, S]
        F = jnp.linalg.solve(G @ G.T + self.ridge * jnp.eye(len(G), dtype=G.dtype), G).T

        share = jax.nn.softmax(scores, where=mask)
        mu = share @ x
        variance = jnp.maximum(share @ (x - mu) ** 2, 1 / (12 * length**2))
        r = bell(mu, centres, variance + widths**2)
        return jnp.where(mask, F @ r, 0)


def bell(x: Array, mean: Array, variance: Array) -> Array:
    """N(x; mean, variance), the density of a normal distribution."""
    return jnp.exp(-((x - mean) ** 2) / (2 * variance)) / jnp.sqrt(2 * jnp.pi * variance)
