"""How hypotheses of different lengths and coverage are compared.

A hypothesis is ranked by its log-probability divided by a measure of its length, less a penalty for
source words that it did not attend to. The measures never decrease with the length, on which the
early stop of beam search relies.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.errors import InputError


def none(length: Int[Array, "..."]) -> Float[Array, "..."]:
    """1: log-probabilities are compared as they are."""
    return jnp.ones(length.shape)


def average(length: Int[Array, "..."]) -> Float[Array, "..."]:
    """The number of words, `EOS` included: mean log-probabilities per word are compared.

    Cho et al. 2014, "On the properties of neural machine translation", section 4.3.
    """
    return length.astype(float)


def gnmt(length: Int[Array, "..."], *, alpha: float = 0.6) -> Float[Array, "..."]:
    """((5 + |Y|) / 6)^α. Wu et al. 2016, equation 14.

    Raises:
      InputError: α is negative, which would make the measure decrease with the length.
    """
    if alpha < 0:
        raise InputError(f"gnmt: alpha must be at least 0, got {alpha}")
    return ((5 + length) / 6) ** alpha


LENGTH_PENALTIES: dict[str, Callable[..., Array]] = {
    "none": none,
    "average": average,
    "gnmt": gnmt,
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
