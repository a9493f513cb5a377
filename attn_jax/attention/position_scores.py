"""Scores that depend on the source position or on previous attention.

Arrays count source positions from 0, formulas from 1.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import Exponential
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Score, scaled_normal, widen
from attn_jax.attention.scores import Additive, Dot, products
from attn_jax.kernels.hidden_sum import hidden_sum
from attn_jax.kernels.memory import recomputed
from attn_jax.settings.value import setting


class Location(Score):
    """W s at position j.

    W has a column for each of `positions` source positions. As in the paper, a shorter sentence
    uses only the first columns, and words beyond the last column cannot be attended to.

    Paper: Luong, Pham and Manning 2015, section 3.1, equation 8.
    Cost: time T S Q, memory T S.
    """

    positions: int = setting(100, low=1)
    positional = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"W": scaled_normal(rng, (Q, self.positions))}

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " L"]:
        return state @ p["W"]

    def score(
        self, p: Any, query: Float[Array, " L"], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        known = query[: keys.shape[0]]
        beyond = keys.shape[0] - known.size
        return jnp.pad(known, (0, beyond), constant_values=-jnp.inf)


class Relative(Dot):
    """s_i · h_j / √Q + b at offset j - i.

    b is a learned scalar for each offset, as in Raffel et al. 2020, but without their buckets:
    offsets are clipped at ± `distance`, as in Shaw, Uszkoreit and Vaswani 2018, section 3.2.

    Paper: Raffel et al. 2020, section 2.1.
    Cost: time T S Q, memory T S.
    """

    distance: int = setting(16, low=1)
    positional = True
    reads = ("step",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"b": jnp.zeros(2 * self.distance + 1)}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        offsets = jnp.arange(keys.shape[0]) - past.step
        clipped = jnp.clip(offsets, -self.distance, self.distance)
        return products(query, keys) / math.sqrt(query.size) + p["b"][clipped + self.distance]


class LocationAware(Additive):
    """v · tanh(W s + U h_j + V f_j + b), f = F * α_{i-1}.

    f_j is the output of `filters` convolution filters of `width` positions, centred on j, over the
    weights of the previous step. At the first step, these weights are 0 (the paper does not specify
    them).

    Paper: Chorowski et al. 2015, section 2.2, equations 8 and 9.
    Cost: time T S K (A + R) for K filters of width R, memory T S (K + R) + S A.
    """

    filters: int = setting(10, low=1)
    width: int = setting(11, low=1)
    positional = True
    hidden = False  # one query follows another in any case, and `energies` recomputes them
    reads = ("weights",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_additive, rng_F, rng_V = jax.random.split(rng, 3)
        return super().init(rng_additive, Q, D) | {
            "F": scaled_normal(rng_F, (self.width, self.filters)),
            "V": scaled_normal(rng_V, (self.filters, self.units)),
            "b": jnp.zeros(self.units),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"] + p["b"]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        before = past.weights.astype(keys.dtype)
        padded = jnp.pad(before, (self.width // 2, (self.width - 1) // 2))
        around = padded[jnp.arange(keys.shape[0])[:, None] + jnp.arange(self.width)]
        return energies(query, keys, around @ p["F"], p["V"], p["v"])


class Coverage(Score):
    """v · tanh(W s + U h_j + V C_j), C_j = Σ_{k<i} α_kj / Φ_j.

    Φ_j = N σ(f · h_j), the fertility, is the number of target words expected from position j, at
    most N = `fertility`. Of the paper's two kinds of coverage, this is the linguistic one.

    Paper: Tu et al. 2016, sections 3.1.1 (linguistic coverage) and 3.2.
    Cost: time T S A (tanh), memory T S + S A.
    """

    units: int = setting(128, low=1)
    fertility: float = setting(2.0, above=0)
    reads = ("total",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_additive, rng_V, rng_f = jax.random.split(rng, 3)
        return Additive(units=self.units).init(rng_additive, Q, D) | {
            "V": scaled_normal(rng_V, (self.units,)),
            "f": scaled_normal(rng_f, (D,)),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> tuple[Array, Array]:
        fertilities = self.fertility * jax.nn.sigmoid(annotations @ p["f"])
        # Not 0, since coverage is divided by them.
        return annotations @ p["U"], jnp.maximum(fertilities, 1e-6)

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: tuple[Array, Array], past: Past
    ) -> Float[Array, " S"]:
        projected, fertilities = keys
        covered = (past.total / widen(fertilities)).astype(projected.dtype)
        return energies(query, projected, covered[:, None], p["V"][None], p["v"])


class Gmm(Score):
    """log Σ_k a_k exp(-β_k (κ_k - j)²).

    A mixture of `components` bells: a, β and the increments of κ are exp(W s + b), and κ, the
    state, starts at 0 and only grows. With the normalizer `exponential`, the weights are those of
    the paper, which need not sum to 1; with `softmax`, they sum to 1.

    Paper: Graves 2013, section 5.1, equations 46 to 51.
    Cost: time T S K for K bells, memory T S K.
    """

    components: int = setting(3, low=1)
    positional = True
    moves = True
    gives_logarithms = True
    default_normalizer = Exponential

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        W = scaled_normal(rng, (Q, 3 * self.components))
        return {"W": W, "b": jnp.zeros(3 * self.components)}

    def start(self, p: Any, mask: Bool[Array, " S"]) -> Float[Array, " K"]:
        return jnp.zeros(self.components, widen(p["b"]).dtype)

    def query(self, p: Any, state: Float[Array, " Q"]) -> list[Array]:
        # In float32 at least: a small step would not move a large position in bfloat16.
        return jnp.split(widen(state @ p["W"] + p["b"]), 3)

    # The bounds keep overflow in float32 out of the derivative. They do no harm: no sentence has
    # e^20 positions, a bell of sharpness e^40 is 0 except at its centre, and a context e^40 times
    # as large as the annotations is useless.

    def advance(self, p: Any, query: list[Array], keys: Array, past: Past) -> Float[Array, " K"]:
        _, _, log_steps = query
        steps = jnp.exp(jnp.minimum(log_steps, 20)).astype(past.own.dtype)
        return jnp.minimum(past.own + steps, math.exp(20))

    def score(
        self, p: Any, query: list[Array], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        log_heights, log_sharpness, _ = query
        positions = jnp.arange(1, keys.shape[0] + 1)[:, None]
        sharpness = jnp.exp(jnp.minimum(log_sharpness, 40))
        bells = jnp.minimum(log_heights, 40) - sharpness * (past.own - positions) ** 2
        return log_sum(bells)


@recomputed
def energies(
    query: Float[Array, " A"],
    keys: Float[Array, "S A"],
    features: Float[Array, "S K"],
    V: Float[Array, "K A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(q + k_j + V f_j). The hidden units are recomputed for the derivative."""
    return hidden_sum(jnp.tanh(query + keys + features @ V), v)


def log_sum(exponents: Float[Array, "S K"]) -> Float[Array, " S"]:
    """log Σ_k exp(e_k), finite also where the maximum and the exponents are rounded differently.

    XLA may compute the exponents twice, once with fused multiplications for the maximum. At -1e9,
    the two differ by tens: then `logsumexp` is the logarithm of 0 or of infinity.
    """
    largest = jax.lax.stop_gradient(exponents.max(axis=-1, keepdims=True))
    below = exponents - largest
    below = jnp.where(below > 0, 0, below)  # unlike `minimum`, with the whole derivative at 0
    total = jnp.maximum(jnp.exp(below).sum(axis=-1), 0.5)  # the largest alone adds 1
    return largest[:, 0] + jnp.log(total)
