"""Dropout of weights: a normalizer that holds another one."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.errors import InputError
from attn_jax.settings.value import inner, setting


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
