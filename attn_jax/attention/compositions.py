"""Scores and normalizers that are made of others."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer, Score, scaled_normal
from attn_jax.errors import InputError
from attn_jax.settings.value import inner, setting


class Pair(Score):
    """Two scores, [2, S], for a normalizer that takes two, such as `mocha`.

    Raises:
      InputError: one of them has a state, has fixed weights, or is a pair itself.
    """

    first: Score = inner()
    second: Score = inner()

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in (self.first, self.second):
            if isinstance(one, Pair):
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
    """Another score of W s and U h_j, such as `Projected(Dot())`, s · Wᵀ U h_j.

    Raises:
      InputError: the other score has a state.
    """

    compared: Score = inner()
    units: int = setting(128, low=1)

    def __post_init__(self) -> None:
        """Takes over what the class of the other says of itself."""
        super().__post_init__()
        for fact in ("is_control", "gives_logarithms", "default_normalizer"):
            object.__setattr__(self, fact, getattr(self.compared, fact))

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
        for fact in ("scores", "moves", "needs_logarithms"):
            object.__setattr__(self, fact, getattr(self.normalizer, fact))

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

    def summed(self, weights: Float[Array, " S"], rng: Array) -> Float[Array, " S"]:
        kept = jax.random.bernoulli(rng, 1 - self.rate, weights.shape)
        return jnp.where(kept, weights / (1 - self.rate), 0)
