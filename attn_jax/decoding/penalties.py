"""How hypotheses of different lengths and coverage are compared.

A hypothesis is ranked by its log-probability divided by a measure of its length, less a penalty for
source words that it did not attend to. The measures never decrease with the length, on which the
early stop of beam search relies.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.settings.value import Value, setting


class LengthPenalty(Value):
    """What log-probabilities of hypotheses are divided by."""

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """The divisor of a hypothesis with so many words, `EOS` included."""
        raise NotImplementedError


class NoPenalty(LengthPenalty):
    """1: log-probabilities are compared as they are."""

    name = "none"

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """1."""
        return jnp.ones(length.shape)


class Average(LengthPenalty):
    """The number of words: mean log-probabilities per word are compared.

    Cho et al. 2014, "On the properties of neural machine translation", section 4.3.
    """

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """|Y|."""
        return length.astype(float)


class GNMT(LengthPenalty):
    """((5 + |Y|) / 6)^α. Wu et al. 2016, equation 14.

    α is not negative, which would make the divisor decrease with the length.
    """

    alpha: float = setting(0.6, low=0)

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """((5 + |Y|) / 6)^α."""
        return ((5 + length) / 6) ** self.alpha


NONE = NoPenalty()
LENGTH_PENALTIES: dict[str, type[LengthPenalty]] = {
    one.name: one for one in (NoPenalty, Average, GNMT)
}


def uncovered(total: Float[Array, "... S"], mask: Bool[Array, "... S"]) -> Float[Array, "..."]:
    """Σ_s log min(Σ_t α_ts, 1): at most 0, and lower if less of the source was attended to.

    The sum over t is at least 1e-6, since sparse attention may give a word no weight at all. Wu et
    al. 2016, equation 14.

    Args:
      total: Σ_t α_ts, the weight of each source word, summed over the steps.
      mask: True at real source positions.
    """
    return jnp.where(mask, jnp.log(jnp.clip(total, 1e-6, 1.0)), 0).sum(axis=-1)
