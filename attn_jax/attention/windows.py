"""Windows: which source positions a step may attend to, for any score.

Scores are normalised over the window, and the weights then multiplied by its gain, if it has one.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Window, scaled_normal, widen
from attn_jax.settings.value import setting


class Full(Window):
    """Every real position.

    Paper: Luong, Pham and Manning 2015, section 3.1 (global attention).
    Cost: none.
    """


class LocalM(Window):
    """|j - p_i| ≤ w around p_i = i, w = `half_width`.

    w is the paper's D. Assumes that source and target are roughly aligned word by word. At steps
    beyond the end of the source, which the paper does not specify, the window stays at the last
    word.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-m).
    Cost: time T S, memory T S.
    """

    half_width: int = setting(10, low=1)
    positional = True
    reads = ("step",)

    def bias(self, p: Any, query: Array, past: Past) -> Float[Array, " S"]:
        centre = jnp.minimum(past.step + 1, length(past.mask))
        return within(past.mask, centre, self.half_width)


class LocalP(Window):
    """|j - p_i| ≤ w around p_i = S σ(v · tanh(W s)), gain exp(-2 (j - p_i)² / w²).

    w is `half_width`, the paper's D. As in the paper, weights are not normalised again after the
    gain, so that they sum to less than 1. Gradients reach the position p_i only through the gain.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-p), equations 9 and 10.
    Cost: time T (S + Q A), memory T S.
    """

    half_width: int = setting(10, low=1)
    units: int = setting(128, low=1)
    positional = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_v = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "v": scaled_normal(rng_v, (self.units,)),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, ""]:
        """p_i / S, in float32 at least: bfloat16 cannot distinguish position 257 from 256."""
        return jax.nn.sigmoid(widen(p["v"] @ jnp.tanh(state @ p["W"])))

    def bias(self, p: Any, query: Float[Array, ""], past: Past) -> Float[Array, " S"]:
        return within(past.mask, length(past.mask) * query, self.half_width)

    def gain(self, p: Any, query: Float[Array, ""], past: Past) -> Float[Array, " S"]:
        distances = jnp.arange(1, past.mask.size + 1) - length(past.mask) * query
        return jnp.exp(-2 * (distances / self.half_width) ** 2)  # a normal density with σ = w / 2


def within(mask: Bool[Array, " S"], centre: Array, half_width: int) -> Float[Array, " S"]:
    """0 at positions that are at most `half_width` away from the centre, -∞ at others."""
    near = jnp.abs(jnp.arange(1, mask.size + 1) - centre) <= half_width
    return jnp.where(near, 0.0, -jnp.inf)


def length(mask: Bool[Array, " S"]) -> Array:
    """The number of the last real position."""
    return jnp.max(jnp.where(mask, jnp.arange(1, mask.size + 1), 0))
