"""Gates: what becomes of the context of a head."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.attention.protocol import Gate, scaled_normal, widen


class Ungated(Gate):
    """c.

    Paper: Bahdanau, Cho and Bengio 2014, section 3.1, equation 5.
    Cost: none.
    """

    name = "none"


class Elementwise(Gate):
    """c ⊙ σ(W s), a number for each feature of the context.

    Paper: Qiu et al. 2025, section 2.2, equation 5: elementwise, after the sum (G1).
    Cost: time T Q C, memory T C.
    """

    def init(self, rng: Array, Q: int, C: int) -> dict[str, Array]:
        return {"W": scaled_normal(rng, (Q, C))}

    def gate(
        self, p: Any, state: Float[Array, " Q"], context: Float[Array, " C"]
    ) -> Float[Array, " C"]:
        return gated(context, state @ p["W"])


class Headwise(Gate):
    """c σ(w · s), one number for the whole context.

    Paper: Qiu et al. 2025, section 2.2, equation 5: headwise, after the sum (G1).
    Cost: time T Q, memory T.
    """

    def init(self, rng: Array, Q: int, C: int) -> dict[str, Array]:
        return {"w": scaled_normal(rng, (Q,))}

    def gate(
        self, p: Any, state: Float[Array, " Q"], context: Float[Array, " C"]
    ) -> Float[Array, " C"]:
        return gated(context, state @ p["w"])


class RmsNorm(Gate):
    """g ⊙ c / √(mean of c²), a context of one size, whatever the weights sum to.

    Paper: Zhang, Titov and Sennrich 2021, section 3, equation 5, for `relu`; the normalisation of
    Zhang and Sennrich 2019.
    Cost: time T C, memory T C.
    """

    def init(self, rng: Array, Q: int, C: int) -> dict[str, Array]:
        return {"g": jnp.ones(C)}

    def gate(
        self, p: Any, state: Float[Array, " Q"], context: Float[Array, " C"]
    ) -> Float[Array, " C"]:
        wide = widen(context)
        scale = jax.lax.rsqrt((wide**2).mean() + 1e-8)  # a context of 0 stays so
        return (p["g"] * wide * scale).astype(context.dtype)


class Leak(Gate):
    """c + (1 - Σ_j α_j) v, v a learned value, which gets the weight that no word gets.

    For normalizers whose weights sum to at most 1, such as `off_by_one` with the score `leaky`.

    Paper: Chen, Sun and Liu 2021 (Mask-Align), the leaky attention.
    Cost: time T C, memory T C.
    """

    def init(self, rng: Array, Q: int, C: int) -> dict[str, Array]:
        return {"v": scaled_normal(rng, (C,))}

    def context(
        self, p: Any, weights: Float[Array, " S"], values: Float[Array, "S C"]
    ) -> Float[Array, " C"]:
        left = 1 - widen(weights).sum()
        return weights @ values + (left * p["v"]).astype(values.dtype)


def gated(context: Float[Array, " C"], logits: Float[Array, "..."]) -> Float[Array, " C"]:
    """c ⊙ σ(z), in the dtype of the context."""
    return context * jax.nn.sigmoid(widen(logits)).astype(context.dtype)
