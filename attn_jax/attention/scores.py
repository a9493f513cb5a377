"""Scores of content: how well each annotation matches a query.

W and U are matrices, v and w vectors, as in the papers. Products are summed in float32 at least:
half precision is too coarse for a softmax.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Score, scaled_normal, widen
from attn_jax.errors import InputError
from attn_jax.kernels.hidden_sum import hidden_sum
from attn_jax.settings.value import setting


class Additive(Score):
    """v · tanh(W s + U h_j), a perceptron of one hidden layer.

    Paper: Bahdanau, Cho and Bengio 2014, appendix A.1.2.
    Cost: time T S A (tanh), memory T S + S A.
    """

    units: int = setting(128, low=1)
    hidden = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_U, rng_v = jax.random.split(rng, 3)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "U": scaled_normal(rng_U, (D, self.units)),
            "v": scaled_normal(rng_v, (self.units,)),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S A"]:
        return annotations @ p["U"]

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return hidden_sum(jnp.tanh(query + keys), p["v"])


class Dot(Score):
    """s · h_j.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S Q, memory T S.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        if Q != D:
            raise InputError(
                f"{self.word} compares queries and annotations of one size, got {Q} and {D}: "
                "`General` compares different sizes, and heads make them equal"
            )
        return {}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return products(query, keys)


class ScaledDot(Dot):
    """s · h_j / √Q.

    With this scale, the variance of a score does not grow with the size of the states.

    Paper: Vaswani et al. 2017, section 3.2.1, equation 1.
    Cost: time T S Q, memory T S.
    """

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return products(query, keys) / math.sqrt(query.size)


class General(Score):
    """s · W h_j, bilinear: states and annotations may differ in size.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S Q, memory T S + S Q.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"W": scaled_normal(rng, (Q, D))}

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S Q"]:
        return annotations @ p["W"].T

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return products(query, keys)


class Concat(Score):
    """v · tanh(W [s; h_j]).

    This is the additive score with W and U in one matrix, and so with one initial scale.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S A (tanh), memory T S + S A.
    """

    units: int = setting(128, low=1)
    hidden = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_v = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q + D, self.units)),
            "v": scaled_normal(rng_v, (self.units,)),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S A"]:
        return annotations @ p["W"][-annotations.shape[-1] :]

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"][: state.size]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return hidden_sum(jnp.tanh(query + keys), p["v"])


class Cosine(Score):
    """β cos(W s, h_j), sharpened by β = softplus(w · s + b).

    In the paper, the controller emits the key and a positive key strength; the linear map and the
    softplus are choices made here.

    Paper: Graves, Wayne and Danihelka 2014, section 3.3.1, equations 5 and 6.
    Cost: time T S D, memory T S + S D.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_w = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q, D)),
            "w": scaled_normal(rng_w, (Q,)),
            "b": jnp.ones(()),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S D"]:
        return unit(annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[Array, Array]:
        return jax.nn.softplus(p["w"] @ state + p["b"]), unit(state @ p["W"])

    def score(
        self, p: Any, query: tuple[Array, Array], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        beta, direction = query
        return beta * products(direction, keys)


class Linear(Score):
    """log(φ(W s) · φ(U h_j)) with φ(x) = elu(x) + 1.

    With softmax, this is the kernelised attention of the paper, φ(q)·φ(k_j) / Σ_l φ(q)·φ(k_l),
    including its projections, without which bounded states could not tell positions apart. Unlike
    in the paper, cost is not linear in length: the weights of each query are computed, since this
    project examines them, instead of sums over source positions that all queries share.

    Paper: Katharopoulos et al. 2020, section 3.2, equations 4 and 7.
    Cost: time T S A (exp), memory T S + S A.
    """

    units: int = setting(128, low=1)
    hidden = True

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_U = jax.random.split(rng)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "U": scaled_normal(rng_U, (D, self.units)),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> Float[Array, "S A"]:
        return log_features(annotations @ p["U"])

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return log_features(state @ p["W"])

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return jax.nn.logsumexp(query + keys, axis=-1)


class Mean(Score):
    """0: the same weight on every real position.

    A control, to measure what attention gains over averaging.

    Paper: the uniform weights that Wiegreffe and Pinter 2019, section 3.2, compare with.
    Cost: time T S, memory T S.
    """

    is_control = True

    def score(self, p: Any, query: Array, keys: Float[Array, "S D"], past: Past) -> Array:
        return jnp.zeros(keys.shape[0], keys.dtype)


class Last(Score):
    """0 at the last real position, -∞ elsewhere: a fixed context.

    A control: an encoder-decoder without attention, whose decoder reads the last annotation at
    every step.

    Paper: Cho et al. 2014, section 2.2; Sutskever, Vinyals and Le 2014, section 2.
    Cost: time T S, memory T S.
    """

    is_control = True
    positional = True

    def score(self, p: Any, query: Array, keys: Float[Array, "S D"], past: Past) -> Array:
        return jnp.where(is_last(past.mask), 0, -jnp.inf).astype(keys.dtype)


def products(query: Float[Array, " A"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    """q · k_j."""
    # Keys come first, in their memory layout: XLA's CPU backend would transpose a second factor,
    # which is slower.
    return widen(keys) @ widen(query)


def unit(vectors: Float[Array, "... N"]) -> Float[Array, "... N"]:
    """Vectors of length 1; a zero vector stays zero, with a finite gradient."""
    wide = widen(vectors)
    squares = (wide**2).sum(axis=-1, keepdims=True)
    return wide * jax.lax.rsqrt(jnp.maximum(squares, jnp.finfo(wide.dtype).eps ** 2))


def log_features(vectors: Float[Array, "... N"]) -> Float[Array, "... N"]:
    """log(elu(x) + 1), which is x where x is negative."""
    return jnp.where(vectors > 0, jnp.log1p(jnp.maximum(vectors, 0)), vectors)


def is_last(mask: Bool[Array, " S"]) -> Bool[Array, " S"]:
    """True at the last real position."""
    positions = jnp.arange(mask.size)
    return positions == jnp.max(jnp.where(mask, positions, -1))


def is_first(mask: Bool[Array, " S"]) -> Bool[Array, " S"]:
    """True at the first real position."""
    return mask & (jnp.cumsum(mask) == 1)
