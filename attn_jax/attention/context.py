"""Attention of one query over one sentence: score, normalise, sum."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import softmax
from attn_jax.attention.scores import resolve


def context(weights: Float[Array, " S"], values: Float[Array, "S D"]) -> Float[Array, " D"]:
    """Σ_j α_j h_j. Bahdanau, Cho and Bengio 2014, equation 5."""
    return weights @ values


def attend(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    values: Float[Array, "S D"],
    mask: Bool[Array, " S"] | None = None,
    *,
    score: str | Callable,
    normalizer: Callable = softmax,
) -> tuple[Float[Array, " D"], Float[Array, " S"]]:
    """What one query reads from one sentence.

    `jax.vmap(attend, ...)` makes it a function of a batch, of all steps, of heads.

    Args:
      query: decoder state.
      keys: what the score compares the query with, made once per sentence.
      values: annotations that are summed.
      mask: True where the query may attend; everywhere when None.
      score: a function `(query, keys) -> [S]`, its parameters bound by `functools.partial`, or the
        name of a score without parameters.
      normalizer: scores [S] and mask [S] to weights [S].

    Returns:
      The context and the weights, which sum to 1, or to 0 where the mask is nowhere True.
    """
    if mask is None:
        mask = jnp.ones(keys.shape[0], bool)
    weights = normalizer(resolve(score)(query, keys), mask)
    return context(weights, values), weights
