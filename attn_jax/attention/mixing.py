"""Mixing: linear maps of scores and weights across heads."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.attention.protocol import Mixing


class Apart(Mixing):
    """Each head has its own scores and weights.

    Paper: Vaswani et al. 2017, section 3.2.2.
    Cost: none.
    """

    name = "none"


class TalkingHeads(Mixing):
    """e'_n = Σ_m P_mn e_m, normalized to α_n; α'_n = Σ_m R_mn α_m, for heads n and m.

    P is the paper's P_l, of logits, and R its P_w, of weights, for as many heads at each stage.
    Both start as the identity: as heads apart. Weights may be negative, and sum to any number.

    Paper: Shazeer, Lan, Cheng, Ding and Hou 2020, section 3, figure 1.
    Cost: time T S N, memory T S.
    """

    non_negative = False

    def init(self, rng: Array, N: int) -> dict[str, Array]:
        return {"P": jnp.eye(N), "R": jnp.eye(N)}

    def scores(self, p: Any, scores: Float[Array, "N S"]) -> Float[Array, "N S"]:
        return p["P"].T.astype(scores.dtype) @ scores

    def weights(self, p: Any, weights: Float[Array, "N S"]) -> Float[Array, "N S"]:
        return p["R"].T.astype(weights.dtype) @ weights
