"""Scores that move through the source by themselves: bells, filters, a learned position.

Arrays count source positions from 0, formulas from 1.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.normalizers import Exponential
from attn_jax.attention.offset_scores import sides
from attn_jax.attention.past import Past
from attn_jax.attention.position_scores import around, energies, gru, init_gru
from attn_jax.attention.protocol import Score, scaled_normal, widen
from attn_jax.attention.scores import General, ScaledDot, is_first
from attn_jax.attention.windows import beta_binomial, length
from attn_jax.settings.value import setting


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


class GmmV1(Gmm):
    """log Σ_k w_k N(j; κ_k, σ_k²), (ŵ, Δ̂, σ̂) = V tanh(W s + b) + c.

    A mixture of normal densities: w = softmax(ŵ), σ² = exp(σ̂), and κ grows by Δ = exp(Δ̂). As in
    `gmm`, positions count from 1; some programs count from 0.

    Paper: Battenberg et al. 2020, section 2.2, equations 5 to 7, table 1: V1.
    Cost: time T (S K + Q A) for K bells, memory T (S K + A).
    """

    components: int = setting(5, low=1)
    units: int = setting(128, low=1)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_V = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "b": jnp.zeros(self.units),
            "V": scaled_normal(rng_V, (self.units, 3 * self.components)),
            "c": jnp.zeros(3 * self.components),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> list[Array]:
        hidden = jnp.tanh(state @ p["W"] + p["b"])
        weights, steps, widths = jnp.split(widen(hidden @ p["V"] + p["c"]), 3)
        return [jax.nn.log_softmax(weights), self.steps(steps), self.widths(widths)]

    def steps(self, numbers: Float[Array, " K"]) -> Float[Array, " K"]:
        """Δ. Bounded as in `gmm`."""
        return jnp.exp(jnp.minimum(numbers, 20))

    def widths(self, numbers: Float[Array, " K"]) -> Float[Array, " K"]:
        """σ, also bounded: a bell of e^-7 is 0 except at its centre, one of e^20 level."""
        return jnp.exp(jnp.clip(numbers / 2, -7, 20))

    def advance(self, p: Any, query: list[Array], keys: Array, past: Past) -> Float[Array, " K"]:
        _, steps, _ = query
        return jnp.minimum(past.own + steps.astype(past.own.dtype), math.exp(20))

    def score(
        self, p: Any, query: list[Array], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        log_weights, _, widths = query
        distances = past.own - jnp.arange(1, len(keys) + 1)[:, None]
        heights = log_weights - jnp.log(widths * math.sqrt(2 * math.pi))
        return log_sum(heights - (distances / widths) ** 2 / 2)


class GmmV2(GmmV1):
    """log Σ_k w_k N(j; κ_k, σ_k²), as `gmm_v1`, with σ = softplus(σ̂) and Δ = softplus(Δ̂).

    The biases c are such that Δ is at first `step` and σ `width`. The defaults are those of the
    paper's V2b; without biases, which is its V2, both are log 2 = 0.69.

    Paper: Battenberg et al. 2020, section 2.2, equations 5 to 7, table 1: V2 and V2b.
    Cost: time T (S K + Q A) for K bells, memory T (S K + A).
    """

    step: float = setting(1.0, above=0)
    width: float = setting(10.0, above=0)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        firsts = 0.0, inverse_softplus(self.step), inverse_softplus(self.width)
        return super().init(rng, Q, D) | {"c": jnp.repeat(jnp.asarray(firsts), self.components)}

    def steps(self, numbers: Float[Array, " K"]) -> Float[Array, " K"]:
        """Δ."""
        return jax.nn.softplus(numbers)

    def widths(self, numbers: Float[Array, " K"]) -> Float[Array, " K"]:
        """σ, at least e^-7: such a bell is 0 except at its centre."""
        return jnp.maximum(jax.nn.softplus(numbers), math.exp(-7))


class Logistics(Gmm):
    """log Σ_k w_k (F((j + ½ - κ_k) / β_k) - F((j - ½ - κ_k) / β_k)), F the logistic function.

    A mixture of logistic distributions, of each the share that falls to a position: w = softmax(ŵ),
    β = exp(β̂), and κ grows by exp(κ̂), all linear in the query.

    Paper: Vasquez and Lewis 2019 (MelNet), section 5.3.
    Cost: time T S K for K logistics, memory T S K.
    """

    components: int = setting(5, low=1)

    def score(
        self, p: Any, query: list[Array], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        weights, log_widths, _ = query
        sharpness = jnp.exp(-jnp.clip(log_widths, -20, 20))
        centred = (jnp.arange(1, len(keys) + 1)[:, None] - past.own) * sharpness
        # F(a) - F(b) = F(a) F(-b) (1 - e^{b-a}), without a difference of numbers near 0 or 1.
        above, below = centred + sharpness / 2, centred - sharpness / 2
        shares = jax.nn.log_sigmoid(above) + jax.nn.log_sigmoid(-below)
        return log_sum(jax.nn.log_softmax(weights) + shares + jnp.log(-jnp.expm1(-sharpness)))


class DynamicConvolution(Score):
    """v · tanh(U f_j + T g_j + b) + log max((P * α)_j, 10⁻⁶), f = F * α, g = G(s) * α, α = α_{i-1}.

    F are fixed filters, and G = V tanh(W s + a) such that the query makes, each of `width`
    positions centred on j. P is a fixed filter from j to the left, of `prior` positions with the
    probabilities of a beta-binomial distribution (α = 0.1, β = 0.9), which moves weight by one
    position in the mean, and never back. Before the first step, all weight is on the first word.

    Paper: Battenberg et al. 2020, section 2.3, equations 8 to 10.
    Cost: time T S K (A + R) + T Q A + T A K R for K filters of width R, memory T (S + A) K + T S R.
    """

    units: int = setting(128, low=1)
    filters: int = setting(8, low=1)
    width: int = setting(21, low=1)
    prior: int = setting(11, low=1)
    positional = True
    reads = ("step", "weights")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rngs = jax.random.split(rng, 6)
        return {
            "W": scaled_normal(rngs[0], (Q, self.units)),
            "a": jnp.zeros(self.units),
            "V": scaled_normal(rngs[1], (self.units, self.width * self.filters)),
            "F": scaled_normal(rngs[2], (self.width, self.filters)),
            "U": scaled_normal(rngs[3], (self.filters, self.units)),
            "T": scaled_normal(rngs[4], (self.filters, self.units)),
            "b": jnp.zeros(self.units),
            "v": scaled_normal(rngs[5], (self.units,)),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, "R K"]:
        hidden = jnp.tanh(state @ p["W"] + p["a"])
        return (hidden @ p["V"]).reshape(self.width, self.filters)

    def score(
        self, p: Any, query: Float[Array, "R K"], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        weights = jnp.where(past.step == 0, is_first(past.mask), past.weights)
        # All filters at once: those of the query beside the fixed ones.
        features = around(weights, self.width) @ jnp.concatenate([p["F"], query], axis=1)
        maps = jnp.concatenate([p["U"], p["T"]])
        none = jnp.zeros((len(keys), self.units), features.dtype)
        energy = energies(p["b"], none, features, maps, p["v"])
        from_left = around(jnp.pad(weights, ((self.prior - 1) // 2, 0)), self.prior)[: len(keys)]
        chances = beta_binomial(self.prior, self.prior - 1, 0.1, 0.9)
        moved = from_left[:, ::-1] @ chances.astype(weights.dtype)
        return energy + jnp.log(jnp.maximum(moved, 1e-6))


class MixAttender(Score):
    """log(% softmax(e) + (1 - %) λ), λ_j ∝ exp(-(x_j - μ)² / 2σ²), x_j = (j - 1) / (S - 1).

    e is the score `content`. A GRU over the queries makes r, ρ, b, σ̂ and %. The centre μ is
    ρ m + (1 - ρ) b + r / (S - 1), where m = Σ_j α_{i-1,j} x_j is where the last step attended to;
    at the first step, μ is b. The width is σ = (0.27 + softplus(σ̂)) / S. With softmax, weights are
    what stands in the logarithm. The authors' program also has a layer before the GRU, rounds r and
    b, clips μ, gates σ with the last one, and makes % of σ unless told otherwise: these are left
    out.

    Paper: Dubois, Dagan, Hupkes and Bruni 2020, section 3.
    Cost: time T (S + (Q + d) d) for d = `units`, memory T (S + d), besides those of the content.

    Raises:
      InputError: the content has a state.
    """

    content: Score = General()
    units: int = setting(64, low=1)
    positional = True
    gives_logarithms = True
    reads = ("step", "weights")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Any]:
        rng_content, rng_gru, rng_M = jax.random.split(rng, 3)
        return {
            "content": self.content.init(rng_content, Q, D),
            "gru": init_gru(rng_gru, Q, self.units),
            "M": scaled_normal(rng_M, (self.units, 5)),
            # From the last position one step on; σ is at first 5 / S.
            "c": jnp.asarray([1.0, 1.0, 0.1, 5.0, 0.0]),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> PyTree:
        return self.content.keys(p["content"], annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[PyTree, Array]:
        inputs = widen(state @ p["gru"]["W"] + p["gru"]["b"])
        return self.content.query(p["content"], state), inputs

    def start(self, p: Any, mask: Bool[Array, " S"]) -> Float[Array, " d"]:
        return jnp.zeros(self.units, widen(p["c"]).dtype)

    def advance(
        self, p: Any, query: tuple[PyTree, Array], keys: PyTree, past: Past
    ) -> Float[Array, " d"]:
        return gru(past.own, query[1].astype(past.own.dtype), p["gru"]["U"])

    def score(
        self, p: Any, query: tuple[PyTree, Array], keys: PyTree, past: Past
    ) -> Float[Array, " S"]:
        scores = widen(self.content.score(p["content"], query[0], keys, past))
        allowed = past.mask & (scores != -jnp.inf)
        content = jax.nn.softmax(jnp.where(allowed, scores, 0), where=allowed)

        step, keep, bias, width, share = past.own @ p["M"] + p["c"]
        S = length(past.mask)
        places = jnp.arange(past.mask.size) / jnp.maximum(S - 1, 1)
        keep, mean = jax.nn.sigmoid(keep), past.weights @ places
        moved = keep * mean + (1 - keep) * bias + step / jnp.maximum(S - 1, 1)
        centre = jnp.where(past.step == 0, bias, moved)
        distances = (places - centre) * jnp.maximum(S, 1) / (0.27 + jax.nn.softplus(width))
        location = jax.nn.softmax(-(distances**2) / 2, where=past.mask)

        share = jax.nn.sigmoid(share)
        mixed = share * content + (1 - share) * location
        tiny = jnp.finfo(mixed.dtype).tiny
        seen = mixed > tiny  # where it is 0, the second derivative would be NaN
        return jnp.where(seen, jnp.log(jnp.where(seen, mixed, 1)), math.log(tiny))


class VeryAttentive(ScaledDot):
    """s_i · h_j / √Q + b at offset j - π_i, π_i = π_{i-1} + softplus(w · tanh(W s_i + a) + c).

    π is a learned position, at first 0, from which biases are counted. They are those of the
    buckets of T5, interpolated, so that π has a derivative; beyond `distance` they fall by 1 a
    position. In the paper, all heads and layers share one π, whose steps a recurrent network makes,
    which reads what stands at π. Here, each head has its own, and the query makes its steps; w is
    at first 0, and the first steps are `step`. Biases start as a bell of `spread` buckets.

    Paper: Battenberg et al. 2025, sections 3.3 to 3.7; buckets are those of its program.
    Cost: time T (S Q + Q A), memory T S + T A.

    Raises:
      InputError: the distance is less than there are buckets for one offset each.
    """

    units: int = setting(128, low=1)
    buckets: int = setting(32, low=6)
    distance: int = setting(64, low=2)
    step: float = setting(0.25, above=0)
    spread: float = setting(15.0, above=0)
    positional = True
    moves = True

    def __post_init__(self) -> None:
        super().__post_init__()
        sides(self)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        places = jnp.arange(self.buckets) - self.buckets // 2
        return super().init(rng, Q, D) | {
            "W": scaled_normal(rng, (Q, self.units)),
            "a": jnp.zeros(self.units),
            "w": jnp.zeros(self.units),
            "c": jnp.full((), inverse_softplus(self.step)),
            "b": jax.nn.log_softmax(-((places / self.spread) ** 2) / 2),
        }

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[Array, Array]:
        hidden = jnp.tanh(state @ p["W"] + p["a"])
        return state, jax.nn.softplus(widen(hidden @ p["w"] + p["c"]))

    def start(self, p: Any, mask: Bool[Array, " S"]) -> Float[Array, ""]:
        return jnp.zeros((), widen(p["c"]).dtype)

    def advance(
        self, p: Any, query: tuple[Array, Array], keys: Array, past: Past
    ) -> Float[Array, ""]:
        return past.own + query[1].astype(past.own.dtype)

    def score(
        self, p: Any, query: Any, keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        state, _ = query
        offsets = jnp.arange(len(keys)) - past.own
        bucket = self.bucket(offsets)
        low = jnp.floor(bucket)
        share, at = bucket - low, low.astype(int)
        beside = jnp.minimum(at + 1, self.buckets - 1)
        bias = (1 - share) * p["b"][at] + share * p["b"][beside]
        penalty = jnp.maximum(jnp.abs(offsets) - self.distance, 0)
        return super().score(p, state, keys, past) + bias - penalty

    def bucket(self, offsets: Float[Array, " S"]) -> Float[Array, " S"]:
        """Where biases of offsets stand among those of `buckets`, also between two."""
        half, exact = sides(self)
        away = jnp.abs(offsets)
        grown = jnp.log(jnp.maximum(away, exact) / exact) / math.log(self.distance / exact)
        beyond = jnp.minimum(exact + grown * (half - 1 - exact), half - 1)
        one_way = jnp.where(away < exact, away, beyond)
        return half + jnp.sign(offsets) * one_way


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


def inverse_softplus(number: float) -> float:
    """What softplus makes this positive number of."""
    return number + math.log(-math.expm1(-number))
