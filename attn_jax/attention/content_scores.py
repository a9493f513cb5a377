"""Further scores of content: normed, biased, activated, or of random features."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Score, scaled_normal, widen
from attn_jax.attention.scores import Additive, Dot, General, products, unit
from attn_jax.kernels.hidden_sum import hidden_sum
from attn_jax.settings.value import setting


class NormedAdditive(Additive):
    """g v/‖v‖ · tanh(W s + U h_j + b).

    The length g of the last vector is a parameter of its own, at first 1/√A.

    Paper: Raffel et al. 2017, section 2.4, equation 16, without its r, which `monotonic` adds; the
    weight normalisation of Salimans and Kingma 2016, section 2, equation 2.
    Cost: time T S A (tanh), memory T S + S A.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        of_length = {"g": jnp.full((), self.units**-0.5), "b": jnp.zeros(self.units)}
        return super().init(rng, Q, D) | of_length

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return state @ p["W"] + p["b"]

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return p["g"] * hidden_sum(jnp.tanh(query + keys), unit(p["v"]).astype(keys.dtype))


class FineGrained(Additive):
    """V tanh(W s + U h_j), a score for each feature of a value, and so a weight for each.

    A context has Σ_j α_jc h_jc for its feature c. The weights that are shown, and that other parts
    read, are their means over features. The paper scores the previous word too, which some
    decoders' states know.

    Paper: Choi, Cho and Bengio 2018, the fine-grained attention.
    Cost: time T S A C, memory T S C + S A.

    Raises:
      InputError: values have another number of features than annotations.
    """

    scores = None

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        rng_W, rng_U, rng_V = jax.random.split(rng, 3)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "U": scaled_normal(rng_U, (D, self.units)),
            "V": scaled_normal(rng_V, (self.units, D)),
        }

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, "C S"]:
        return (jnp.tanh(query + keys) @ p["V"]).T


class ScaledGeneral(General):
    """g s · W h_j, g a number, at first 1.

    Paper: the "scaled Luong" attention of Luong, Brevdo and Zhao 2017, tensorflow/nmt.
    Cost: time T S Q, memory T S + S Q.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"g": jnp.ones(())}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return p["g"] * products(query, keys)


class BiasedGeneral(Score):
    """h_j · (W s + b).

    Paper: Sordoni, Bachman, Trischler and Bengio 2016, section 3.2, the query attention.
    Cost: time T S D, memory T S.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return {"W": scaled_normal(rng, (Q, D)), "b": jnp.zeros(D)}

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " D"]:
        return state @ p["W"] + p["b"]

    def score(
        self, p: Any, query: Float[Array, " D"], keys: Float[Array, "S D"], past: Past
    ) -> Float[Array, " S"]:
        return products(query, keys)


class ActivatedGeneral(General):
    """tanh(s · W h_j + b): between -1 and 1, so that no weight is more than e² times another.

    Paper: Ma, Li, Zhang and Wang 2017, the score γ of their interactive attention.
    Cost: time T S Q, memory T S + S Q.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"b": jnp.zeros(())}

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return jnp.tanh(products(query, keys) + p["b"])


class QkNorm(Dot):
    """g ŝ · ĥ_j, x̂ = x / ‖x‖.

    g is learned, at first log₂(L² - L), L = `length`. The paper takes for L the 97.5th percentile
    of the lengths of the training sentences. Each head has its own g; the authors' program has one.

    Paper: Henry, Dachapally, Pawar and Chen 2020, section 3.
    Cost: time T S Q, memory T S + S Q.
    """

    length: int = setting(64, low=2)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {
            "g": jnp.full((), math.log2(self.length**2 - self.length))
        }

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S Q"]:
        return unit(annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " Q"]:
        return unit(state)

    def score(
        self, p: Any, query: Float[Array, " Q"], keys: Float[Array, "S Q"], past: Past
    ) -> Float[Array, " S"]:
        return p["g"] * products(query, keys)


class QkLayerNorm(Dot):
    """LN(s) · LN(h_j) / √Q, LN(x) = γ ⊙ √Q x / ‖x‖, a γ for queries and one for annotations.

    As in the paper, layer normalisation has no bias and does not subtract the mean; that of Flax,
    `normalize_qk`, does subtract it.

    Paper: Dehghani et al. 2023, section 2.1.
    Cost: time T S Q, memory T S + S Q.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"of_query": jnp.ones(Q), "of_key": jnp.ones(D)}

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S Q"]:
        return p["of_key"] * unit(annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " Q"]:
        return math.sqrt(state.size) * p["of_query"] * unit(state)


class Ngpt(Dot):
    """√Q (γ ⊙ ŝ) · (γ ⊙ ĥ_j), x̂ = x / ‖x‖, one γ for queries and annotations, at first 1.

    The authors' program learns γ as a multiple of a small number, and so in larger steps.

    Paper: Loshchilov, Hsieh, Sun and Ginsburg 2024, section 2.3.2, equations 15 and 16, with their
    s_qk as γ.
    Cost: time T S Q, memory T S + S Q.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, Array]:
        return super().init(rng, Q, D) | {"gamma": jnp.ones(Q)}

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S Q"]:
        return p["gamma"] * unit(annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " Q"]:
        return math.sqrt(state.size) * p["gamma"] * unit(state)


class Performer(Dot):
    """log(φ(s) · φ(h_j)), φ(x) = exp(Ω x' - ‖x'‖²/2) / √m, x' = x / Q^¼.

    With m = `units` random directions Ω, φ(s) · φ(h_j) is in the mean exp(s · h_j / √Q): with
    softmax, the weights are estimates of those of `scaled_dot`. Directions are orthogonal in blocks
    of Q, and as long as normal ones. They are drawn once, by `seed`, and all heads share them; the
    paper draws new ones now and then. Unlike in the paper, cost is not linear in length, since the
    weights of each query are computed.

    Paper: Choromanski et al. 2021, section 2.3, lemma 1, and section 2.4 (FAVOR+).
    Cost: time T S A (exp), memory T S + S A, A = m.
    """

    units: int = setting(128, low=1)
    seed: int = setting(0, low=0)
    hidden = True

    def keys(self, p: Any, annotations: Float[Array, "S Q"]) -> Float[Array, "S A"]:
        return self.log_features(annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> Float[Array, " A"]:
        return self.log_features(state)

    def score(
        self, p: Any, query: Float[Array, " A"], keys: Float[Array, "S A"], past: Past
    ) -> Float[Array, " S"]:
        return jax.nn.logsumexp(query + keys, axis=-1)

    def log_features(self, vectors: Float[Array, "... Q"]) -> Float[Array, "... A"]:
        """log φ(x)."""
        scaled = widen(vectors) * vectors.shape[-1] ** -0.25
        directions = jnp.asarray(orthogonal(self.units, vectors.shape[-1], self.seed).T)
        half = (scaled**2).sum(axis=-1, keepdims=True) / 2
        return scaled @ directions.astype(scaled.dtype) - half - math.log(self.units) / 2


@functools.cache
def orthogonal(count: int, size: int, seed: int) -> Float[np.ndarray, "count size"]:
    """Random directions, orthogonal in blocks of `size`, as long as vectors of normal numbers."""
    generator = np.random.default_rng(seed)
    blocks = []
    for _ in range(-(-count // size)):
        q, r = np.linalg.qr(generator.normal(size=(size, size)))
        blocks.append(q * np.sign(np.diag(r)))  # without which q is not uniform
    lengths = np.linalg.norm(generator.normal(size=(count, size)), axis=1)
    return lengths[:, None] * np.concatenate(blocks)[:count]
