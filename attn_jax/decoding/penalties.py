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
    """The number of words, `EOS` included: their mean log-probability is compared.

    Bahdanau, Cho and Bengio 2014, section 4.3, compare so, as do Cho et al. 2014.
    """
    return length.astype(float)


def gnmt(length: Int[Array, "..."], *, alpha: float = 0.6) -> Float[Array, "..."]:
    """((5 + |Y|) / 6)^α. Wu et al. 2016, equation 14.

    Raises:
      InputError: α is negative, so that longer hypotheses would be divided by less.
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
    """Σ_s log min(Σ_t weights, 1), at most 0: lower the less of the source was attended to.

    A word that was not attended to at all, as sparse attention leaves it, counts as a millionth.
    Wu et al. 2016, equation 14.

    Args:
      total: weights of each source word, summed over the steps.
      mask: real source positions.
    """
    return jnp.where(mask, jnp.log(jnp.clip(total, 1e-6, 1.0)), 0).sum(axis=-1)
