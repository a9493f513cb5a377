"""Scores that depend on the source position or on what was attended to before.

Arrays count source positions from 0, formulas from 1.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Score, scaled_normal, widen
from attn_jax.attention.scores import Additive
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


class LocationAware(Additive):
    """v · tanh(W s + U h_j + V f_j + b), f = F * α_{i-1}.

    f_j is the output of `filters` convolution filters of `width` positions, centred on j, over the
    weights of the previous step. At the first step, these weights are 0 (the paper does not specify
    them; in its program, all weight is on the first position).

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
        before = around(past.weights, self.width).astype(keys.dtype)
        return energies(query, keys, before @ p["F"], p["V"], p["v"])


class CumulativeLocation(LocationAware):
    """v · tanh(W s + U h_j + V f_j + b), f = F * [α_{i-1}; Σ_{k<i} α_k].

    As `location_aware`, with filters over the weights of the last step and over the sum of those of
    all earlier steps. Defaults are those of the paper.

    Paper: Shen et al. 2018 (Tacotron 2), section 2.2. That both are used is told by its programs.
    Cost: time T S K (A + 2 R) for K filters of width R, memory T S (K + 2 R) + S A.
    """

    filters: int = setting(32, low=1)
    width: int = setting(31, low=1)
    reads = ("weights", "total")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng, rng_F = jax.random.split(rng)
        filters = scaled_normal(rng_F, (2 * self.width, self.filters))
        return super().init(rng, Q, D) | {"F": filters}

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        both = [around(numbers, self.width) for numbers in (past.weights, past.total)]
        before = jnp.concatenate(both, axis=1).astype(keys.dtype)
        return energies(query, keys, before @ p["F"], p["V"], p["v"])


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


class PlainCoverage(Additive):
    """v · tanh(W s + U h_j + w c_j + b), c_j = Σ_{k<i} α_kj.

    Paper: See, Liu and Manning 2017, section 2.3, equations 10 and 11.
    Cost: time T S A (tanh), memory T S + S A.
    """

    reads = ("total",)
    hidden = False  # one query follows another in any case, and `energies` recomputes them

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng, rng_w = jax.random.split(rng)
        of_coverage = {"w": scaled_normal(rng_w, (self.units,)), "b": jnp.zeros(self.units)}
        return super().init(rng, Q, D) | of_coverage

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"] + p["b"]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        covered = past.total.astype(keys.dtype)[:, None]
        return energies(query, keys, covered, p["w"][None], p["v"])


class NeuralCoverage(Score):
    """v · tanh(W s_i + U h_j + V C_j), C_j ← GRU(C_j; α_{i-1,j}, h_j, s_{i-1}).

    Each source position has a vector C_j of `size` numbers, at first 0, that a recurrent network
    changes after each step: by how much the position was attended to, what stands there, and the
    query of that step: the paper's, if queries are states before the step, as in `bahdanau`.

    Paper: Tu et al. 2016, section 3.1.2 (neural network based coverage) and 3.2.
    Cost: time T S (A + d (D + d)) for d = `size`, memory T S d + S A.
    """

    units: int = setting(128, low=1)
    size: int = setting(10, low=1)
    reads = ("step", "weights")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Any]:
        rng_additive, rng_V, rng_gru, rng_s = jax.random.split(rng, 4)
        return Additive(units=self.units).init(rng_additive, Q, D) | {
            "V": scaled_normal(rng_V, (self.size, self.units)),
            "of_query": scaled_normal(rng_s, (Q, 3 * self.size)),
            "gru": init_gru(rng_gru, D + 1, self.size),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> tuple[Array, Array]:
        # What annotations add to the inputs of the network is the same at all steps.
        return annotations @ p["U"], annotations @ p["gru"]["W"][1:] + p["gru"]["b"]

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[Array, Array]:
        return state @ p["W"], widen(state @ p["of_query"])

    def start(self, p: Any, mask: Bool[Array, " S"]) -> tuple[Array, Array]:
        wide = widen(p["gru"]["b"]).dtype
        return jnp.zeros((mask.size, self.size), wide), jnp.zeros(3 * self.size, wide)

    def advance(
        self, p: Any, query: tuple[Array, Array], keys: tuple[Array, Array], past: Past
    ) -> tuple[Array, Array]:
        coverage, of_last_query = past.own
        inputs = keys[1] + past.weights[:, None] * p["gru"]["W"][0] + of_last_query
        after = gru(coverage, inputs.astype(coverage.dtype), p["gru"]["U"])
        return jnp.where(past.step == 0, coverage, after), query[1].astype(coverage.dtype)

    def score(
        self, p: Any, query: tuple[Array, Array], keys: tuple[Array, Array], past: Past
    ) -> Float[Array, " S"]:
        coverage = past.own[0].astype(keys[0].dtype)
        return energies(query[0], keys[0], coverage, p["V"], p["v"])


class Recurrent(Score):
    """v · tanh(W s + U h_j + V m_j), m_j ← GRU(m_j; α_{i-1,j-w} … α_{i-1,j+w}).

    Each source position has a recurrent network, the same for all, that reads the weights of the
    last step around it, w = `half_width` to each side. That it is a GRU is a choice made here.

    Paper: Yang, Hu, Deng, Dyer and Smola 2017, section 2.
    Cost: time T S (A + d (w + d)) for d = `size`, memory T S (d + w) + S A.
    """

    units: int = setting(128, low=1)
    size: int = setting(10, low=1)
    half_width: int = setting(5, low=0)
    positional = True
    reads = ("step", "weights")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Any]:
        rng_additive, rng_V, rng_gru = jax.random.split(rng, 3)
        return Additive(units=self.units).init(rng_additive, Q, D) | {
            "V": scaled_normal(rng_V, (self.size, self.units)),
            "gru": init_gru(rng_gru, 2 * self.half_width + 1, self.size),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S A"]:
        return annotations @ p["U"]

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"]

    def start(self, p: Any, mask: Bool[Array, " S"]) -> Float[Array, "S d"]:
        return jnp.zeros((mask.size, self.size), widen(p["gru"]["b"]).dtype)

    def advance(self, p: Any, query: Array, keys: Array, past: Past) -> Float[Array, "S d"]:
        before = around(past.weights, 2 * self.half_width + 1)
        inputs = before @ p["gru"]["W"] + p["gru"]["b"]
        after = gru(past.own, inputs.astype(past.own.dtype), p["gru"]["U"])
        return jnp.where(past.step == 0, past.own, after)

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return energies(query, keys, past.own.astype(keys.dtype), p["V"], p["v"])


class Structural(Additive):
    """v · tanh(W s + U h_j + P ψ + M ξ + F φ): position, the last weights, and all earlier ones.

    ψ = [log(1 + i), log(1 + j), log(1 + S)], S the length of the source; ξ are the weights of the
    last step at j-k … j+k, and φ the sums of those of all earlier steps at the same places, k =
    `half_width`. These are the paper's position bias, Markov condition and local fertility. Its
    global fertility and its agreement of two directions are losses, which are not part of this.

    Paper: Cohn et al. 2016, section 3.1 to 3.3.
    Cost: time T S (A + w A) for windows of w, memory T S w + S A.
    """

    half_width: int = setting(1, low=0)
    positional = True
    hidden = False  # one query follows another in any case, and `energies` recomputes them
    reads = ("step", "weights", "total")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng, rng_P, rng_M, rng_F = jax.random.split(rng, 4)
        width = 2 * self.half_width + 1
        return super().init(rng, Q, D) | {
            "P": scaled_normal(rng_P, (3, self.units)),
            "M": scaled_normal(rng_M, (width, self.units)),
            "F": scaled_normal(rng_F, (width, self.units)),
        }

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        places = jnp.arange(1, len(keys) + 1)
        longest = jnp.max(jnp.where(past.mask, places, 0))
        position = jnp.stack(jnp.broadcast_arrays(past.step + 1, places, longest), axis=1)
        width = 2 * self.half_width + 1
        before = [jnp.log1p(position), around(past.weights, width), around(past.total, width)]
        features = jnp.concatenate(before, axis=1).astype(keys.dtype)
        return energies(query, keys, features, jnp.concatenate([p["P"], p["M"], p["F"]]), p["v"])


def around(numbers: Float[Array, " S"], width: int) -> Float[Array, "S W"]:
    """The numbers around each position, itself in the middle; 0 beyond the ends."""
    padded = jnp.pad(numbers, (width // 2, (width - 1) // 2))
    return padded[jnp.arange(numbers.size)[:, None] + jnp.arange(width)]


def init_gru(rng: Array, inputs: int, size: int) -> dict[str, Array]:
    """The first parameters of a GRU: for the update gate, the reset gate and the candidate."""
    rng_W, rng_U = jax.random.split(rng)
    return {
        "W": scaled_normal(rng_W, (inputs, 3 * size)),
        "U": scaled_normal(rng_U, (size, 3 * size)),
        "b": jnp.zeros(3 * size),
    }


def gru(
    state: Float[Array, "*S d"], inputs: Float[Array, "*S e"], U: Float[Array, "d e"]
) -> Float[Array, "*S d"]:
    """The next state of a GRU, of W x + b. Cho et al. 2014, section 2.3, equations 5 to 8."""
    of_update, of_reset, of_new = jnp.split(inputs, 3, axis=-1)
    U_update, U_reset, U_new = jnp.split(U.astype(state.dtype), 3, axis=-1)
    update = jax.nn.sigmoid(of_update + state @ U_update)
    reset = jax.nn.sigmoid(of_reset + state @ U_reset)
    new = jnp.tanh(of_new + (reset * state) @ U_new)
    return update * state + (1 - update) * new


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
