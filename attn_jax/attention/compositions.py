"""Scores and normalizers that are made of others."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.normalizers import OffByOne
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer, Part, Score, scaled_normal, widen
from attn_jax.attention.scores import is_first
from attn_jax.errors import InputError
from attn_jax.settings.value import inner, setting


class Pair(Score):
    """Two scores, [2, S], for a normalizer that takes two, such as `mocha`.

    Paper: Chiu and Raffel 2018, section 2.3, which has two additive ones.
    Cost: that of both.

    Raises:
      InputError: one of them has a state, has fixed weights, or is a pair itself.
    """

    first: Score = inner()
    second: Score = inner()
    scores = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in (self.first, self.second):
            if one.scores != 1:
                raise InputError("a pair consists of two scores, not of pairs")
            if one.is_control:
                raise InputError(f"a pair takes no score with fixed weights, got {one.name}")

    def init(self, rng: Array, Q: int, D: int) -> PyTree:
        rng_first, rng_second = jax.random.split(rng)
        return {
            "first": self.first.init(rng_first, Q, D),
            "second": self.second.init(rng_second, Q, D),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> PyTree:
        first = self.first.keys(p["first"], annotations)
        return first, self.second.keys(p["second"], annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> PyTree:
        return self.first.query(p["first"], state), self.second.query(p["second"], state)

    def score(self, p: Any, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "2 S"]:
        first = self.first.score(p["first"], query[0], keys[0], past)
        second = self.second.score(p["second"], query[1], keys[1], past.apart("second"))
        return jnp.stack([first, second])


class Projected(Score):
    """Another score of W s and U h_j, such as `projected(dot)`, s · Wᵀ U h_j.

    Paper: Vaswani et al. 2017, section 3.2.2, the projections of one head.
    Cost: time (T Q + S D) A, memory (T + S) A, besides those of the other score.

    Raises:
      InputError: the other score has a state.
    """

    compared: Score = inner()
    units: int = setting(128, low=1)

    def __post_init__(self) -> None:
        """Takes over what the class of the other says of itself."""
        super().__post_init__()
        facts = "scores", "is_control", "gives_logarithms", "default_normalizer"
        _take_over(self, self.compared, *facts)

    def init(self, rng: Array, Q: int, D: int) -> PyTree:
        rng_W, rng_U, rng_compared = jax.random.split(rng, 3)
        return {
            "W": scaled_normal(rng_W, (Q, self.units)),
            "U": scaled_normal(rng_U, (D, self.units)),
            "compared": self.compared.init(rng_compared, self.units, self.units),
        }

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> PyTree:
        return self.compared.keys(p["compared"], annotations @ p["U"])

    def query(self, p: Any, state: Float[Array, " Q"]) -> PyTree:
        return self.compared.query(p["compared"], state @ p["W"])

    def score(self, p: Any, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "*C S"]:
        return self.compared.score(p["compared"], query, keys, past)


class Around(Score):
    """What scores have in common that change those of another, which has no state."""

    compared: Score = inner()

    def __post_init__(self) -> None:
        """Takes over how many scores the other gives."""
        super().__post_init__()
        _take_over(self, self.compared, "scores")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, PyTree]:
        return {"compared": self.compared.init(rng, Q, D)}

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> PyTree:
        return self.compared.keys(p["compared"], annotations)

    def query(self, p: Any, state: Float[Array, " Q"]) -> PyTree:
        return self.compared.query(p["compared"], state)


class SoftCap(Around):
    """c tanh(e_j / c): another score, bounded by ± c, such as `soft_cap(scaled_dot,cap=30)`.

    Paper: Gemma Team 2024 (Gemma 2), section 2. Bello et al. 2017, whom it cites, have c tanh(e_j).
    Cost: time T S, memory T S, besides those of the other score.

    Raises:
      InputError: the other score has a state.
    """

    cap: float = setting(50.0, above=0)

    def score(self, p: Any, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "*C S"]:
        scores = self.compared.score(p["compared"], query, keys, past)
        excluded = scores == -jnp.inf  # which it stays
        capped = self.cap * jnp.tanh(jnp.where(excluded, 0, scores) / self.cap)
        return jnp.where(excluded, -jnp.inf, capped)


class SelfAdaptive(Around):
    """e_j / τ_i, τ_i = λ^β_i, β_i = tanh(w · c_{i-1} + u · s): another score, flatter or sharper.

    τ is between 1/λ and λ (`base`), and c_{i-1} is the context of the last step, at first 0. The
    authors' program has λ = e, a hidden layer in place of the linear maps, and another first c.

    Paper: Lin, Sun, Ren, Li and Su 2018, section 3 (SACT).
    Cost: time T (S + Q + C), memory T S, besides those of the other score.

    Raises:
      InputError: the other score has a state, or contexts are not of the size of annotations.
    """

    base: float = setting(4.0, above=1)
    reads = ("context",)

    def init(self, rng: Array, Q: int, D: int) -> dict[str, PyTree]:
        rng, rng_w, rng_u = jax.random.split(rng, 3)
        maps = {"w": scaled_normal(rng_w, (D,)), "u": scaled_normal(rng_u, (Q,))}
        return super().init(rng, Q, D) | maps

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[PyTree, Array]:
        return super().query(p, state), widen(state @ p["u"])

    def score(
        self, p: Any, query: tuple[PyTree, Array], keys: PyTree, past: Past
    ) -> Float[Array, "*C S"]:
        asked, of_state = query
        beta = jnp.tanh(of_context(self, p["w"], past) + of_state)
        return self.compared.score(p["compared"], asked, keys, past) * self.base**-beta


class LengthScaled(Around):
    """(1 + β log(n)^γ) e_j, β = softplus(u · s), γ = 3 tanh(w · s): sharper in longer sentences.

    n is the number of positions, and e another score. With `entmax` this is the adaptive scalable
    entmax of the paper; that |γ| is at most 3 is a choice made here. At first β is log 2, and γ 0.

    Paper: Vasylenko et al. 2025, section 3 (ASEntmax).
    Cost: time T (S + Q), memory T S, besides those of the other score.

    Raises:
      InputError: the other score has a state.
    """

    def init(self, rng: Array, Q: int, D: int) -> dict[str, PyTree]:
        return super().init(rng, Q, D) | {"u": jnp.zeros(Q), "w": jnp.zeros(Q)}

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[PyTree, Array, Array]:
        beta = jax.nn.softplus(widen(state @ p["u"]))
        gamma = 3 * jnp.tanh(widen(state @ p["w"]))
        return super().query(p, state), beta, gamma

    def score(self, p: Any, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "*C S"]:
        asked, beta, gamma = query
        # Of one word, too, log n is above 0, whose powers have derivatives.
        length = jnp.log(jnp.maximum(past.mask.sum(), 1.1))
        return self.compared.score(p["compared"], asked, keys, past) * (1 + beta * length**gamma)


class Leaky(Around):
    """e_j - e_0, e_0 the score of a learned annotation h_0, such as `leaky(scaled_dot)`.

    With `off_by_one`, the usual normalizer here, these are the weights of words beside a position
    that is no word: exp(e_j) / (exp(e_0) + Σ_k exp(e_k)). What is left goes to a learned value with
    the gate `leak`; without it, to a value of zeros.

    Paper: Chen, Sun and Liu 2021 (Mask-Align), the leaky attention.
    Cost: time T S, memory T S, besides those of the other score for one more position.

    Raises:
      InputError: the other score reads more than the contents of words.
    """

    default_normalizer = OffByOne

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compared.positional or self.compared.carried or self.compared.is_control:
            raise InputError(
                f"{self.word} scores an annotation that has no position: it takes a score of "
                f"contents alone, not {self.compared.word}"
            )

    def init(self, rng: Array, Q: int, D: int) -> dict[str, PyTree]:
        rng, rng_h = jax.random.split(rng)
        return super().init(rng, Q, D) | {"h": scaled_normal(rng_h, (D,))}

    def keys(self, p: Any, annotations: Float[Array, "S D"]) -> PyTree:
        nowhere = p["h"].astype(annotations.dtype)[None]
        return super().keys(p, jnp.concatenate([nowhere, annotations]))

    def score(self, p: Any, query: PyTree, keys: PyTree, past: Past) -> Float[Array, "*C S"]:
        scores = self.compared.score(p["compared"], query, keys, past)
        return scores[..., 1:] - scores[..., :1]


class TransitionAgent(Around):
    """log((1 - u) α⁻_j + u α⁻_{j-1}) + e_j, u = σ(w · [c_{i-1}; s_{i-1}] + b), α⁻ the last weights.

    Another score, at positions that are reached by staying or by moving on, such as
    `transition_agent(additive)`: with softmax, the normalizer `forward` whose u, there ½, is
    computed. At the first step u is ½, and α⁻ is 1 at the first position. The agent reads the last
    word in the paper too, and its size is left open: here it is linear.

    Paper: Zhang, Ling and Dai 2018, section 3.2, algorithm 2.
    Cost: time T (S + C + Q), memory T S, besides those of the other score.

    Raises:
      InputError: the other score has a state, or contexts are not of the size of annotations.
    """

    moves = True
    positional = True
    reads = ("step", "weights", "context")

    def init(self, rng: Array, Q: int, D: int) -> dict[str, PyTree]:
        rng, rng_w, rng_v = jax.random.split(rng, 3)
        maps = {"w": scaled_normal(rng_w, (D,)), "v": scaled_normal(rng_v, (Q,))}
        return super().init(rng, Q, D) | maps | {"b": jnp.zeros(())}

    def query(self, p: Any, state: Float[Array, " Q"]) -> tuple[PyTree, Array]:
        return super().query(p, state), widen(state @ p["v"])

    def start(self, p: Any, mask: Bool[Array, " S"]) -> tuple[Array, Array]:
        return jnp.zeros(()), jnp.zeros(())

    def advance(
        self, p: Any, query: tuple[PyTree, Array], keys: PyTree, past: Past
    ) -> tuple[Array, Array]:
        _, last = past.own  # v · s of the step before and of the last one
        return last, query[1].astype(last.dtype)

    def score(
        self, p: Any, query: tuple[PyTree, Array], keys: PyTree, past: Past
    ) -> Float[Array, "*C S"]:
        before, _ = past.own
        u = jax.nn.sigmoid(of_context(self, p["w"], past) + before + p["b"])
        u = jnp.where(past.step == 0, 0.5, u)
        last = jnp.where(past.step == 0, is_first(past.mask), past.weights)
        reached = (1 - u) * last + u * jnp.pad(last[:-1], (1, 0))
        possible = reached > 0
        log_reached = jnp.log(jnp.where(possible, reached, 1))
        scores = self.compared.score(p["compared"], query[0], keys, past) + log_reached
        return jnp.where(possible, scores, -jnp.inf)


class Dropped(Normalizer):
    """b_j α_j / (1 - r), b_j = 0 with probability r, else 1, in training; in use α_j.

    The weights α are those of another normalizer: `dropped(softmax,rate=0.1)`. They are dropped
    where they are summed. Losses, later steps and pictures see those before.

    Paper: Vaswani et al. 2017, section 5.4, as in the authors' program; Zehui et al. 2019,
    section 3.
    Cost: time T S, memory T S, besides those of the other.
    Sum: that of the other; of what is summed in training, any.

    Raises:
      InputError: the other drops weights itself.
    """

    normalizer: Normalizer = inner()
    rate: float = setting(0.1, low=0, below=1)

    def __post_init__(self) -> None:
        """Takes over what the class of the other says of itself."""
        super().__post_init__()
        if isinstance(self.normalizer, Dropped):
            raise InputError("weights are dropped once: give one rate")
        facts = "scores", "moves", "needs_logarithms", "non_negative"
        _take_over(self, self.normalizer, *facts)

    @property
    def is_stateful(self) -> bool:
        """Whether the other has a state: this one has none."""
        return self.normalizer.is_stateful

    def init(self, rng: Array, Q: int, D: int) -> PyTree:
        return self.normalizer.init(rng, Q, D)

    def start(self, p: Any, mask: Bool[Array, " S"]) -> PyTree:
        return self.normalizer.start(p, mask)

    def advance(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> PyTree:
        return self.normalizer.advance(p, scores, mask, past)

    def weights(
        self, p: Any, scores: Float[Array, "*C S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        return self.normalizer.weights(p, scores, mask, past)

    def stops(self, own: PyTree) -> Float[Array, " S"] | None:
        return self.normalizer.stops(own)

    def summed(self, weights: Float[Array, " S"], rng: Array) -> Float[Array, " S"]:
        kept = jax.random.bernoulli(rng, 1 - self.rate, weights.shape)
        return jnp.where(kept, weights / (1 - self.rate), 0)


def of_context(reader: Score, w: Float[Array, " D"], past: Past) -> Float[Array, ""]:
    """w · c_{i-1}.

    Raises:
      InputError: contexts are not of the size of annotations.
    """
    if past.context.shape != w.shape:
        raise InputError(
            f"{reader.word} reads contexts of the size of annotations, {w.size} features, got "
            f"{past.context.size}"
        )
    return past.context @ w


def _take_over(part: Part, other: Part, *facts: str) -> None:
    """Gives a part what the class of another says of itself."""
    for fact in facts:
        object.__setattr__(part, fact, getattr(other, fact))
