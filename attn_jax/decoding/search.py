"""Search for a target sentence, over any function that does one step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.tokens import BOS, EOS, PAD


class Found(NamedTuple):
    """What a search found in each sentence of a batch."""

    tokens: Int[Array, "B T"]  # up to and with `EOS`, then `PAD`
    log_probability: Float[Array, " B"]  # of those tokens, in nats
    alignment: Float[Array, "B T ..."]  # the weights behind each token


def greedy(
    step: Callable[[Any, Array], tuple[Any, Array, Array]],
    state: Any,
    mask: Bool[Array, "B S"],
    max_length: int,
) -> Found:
    """Takes the most probable token at each step, until every sentence has ended.

    `PAD`, `BOS` and `UNK` compete as any token does; a trained model does not choose the first two.

    Args:
      step: from a state and the tokens [B] before to the next state, the log-probabilities
        [B, V] of the next token and the weights [B, ...].
      state: before the first token.
      mask: real source positions. A sentence without any, which only fills a batch, is not decoded.
      max_length: T, the most tokens in a sentence, `EOS` included.
    """
    rows = len(mask)
    first = jnp.full(rows, BOS)
    _, _, weights = jax.eval_shape(step, state, first)
    found = Found(
        jnp.full((rows, max_length), PAD),
        jnp.zeros(rows),
        jnp.zeros((rows, max_length, *weights.shape[1:])),
    )

    def unfinished(carry):
        index, _, _, ended, _ = carry
        return (index < max_length) & ~ended.all()

    def advance(carry):
        index, state, before, ended, found = carry
        state, log_probabilities, weights = step(state, before)
        token = jnp.where(ended, PAD, log_probabilities.argmax(axis=-1))
        gained = jnp.where(ended, 0, log_probabilities.max(axis=-1))
        found = Found(
            found.tokens.at[:, index].set(token),
            found.log_probability + gained,
            found.alignment.at[:, index].set(
                jnp.where(ended.reshape(-1, *[1] * (weights.ndim - 1)), 0, weights)
            ),
        )
        return index + 1, state, token, ended | (token == EOS), found

    carry = (0, state, first, ~mask.any(axis=-1), found)
    *_, found = jax.lax.while_loop(unfinished, advance, carry)
    return found
