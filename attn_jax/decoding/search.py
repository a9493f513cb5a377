"""Search for target sentences, with any function that does one step.

A step maps the encoded sources, a state and the previous words, one for each row, to the next
state, the log-probabilities of the next word in nats, and the attention weights. The leaves of
sources and states have a row for each word, or no axes at all where all rows share them.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.tokens import BOS, EOS, PAD

STAGES = 4  # batch sizes, each 5/8 of the previous one and compiled separately


def map_rows(function: Callable, tree: PyTree, *rest: PyTree) -> PyTree:
    """Maps over the leaves that have rows; scalars, which all rows share, are those of `tree`."""
    return jax.tree.map(
        lambda leaf, *others: function(leaf, *others) if leaf.ndim else leaf, tree, *rest
    )


def until_done(
    advance: Callable[[PyTree, PyTree], PyTree],
    active: Callable[[PyTree, PyTree], Bool[Array, " B"]],
    fixed: PyTree,
    carry: PyTree,
    stages: int = STAGES,
) -> PyTree:
    """Applies `advance` until no row is active.

    Sentences end at very different steps. When three eighths of the rows have finished, the others
    continue as a smaller batch, and their results are scattered back into the original rows.

    Args:
      advance: maps `fixed` and a carry to the next carry; its effect on inactive rows must not
        matter.
      active: maps `fixed` and a carry to a mask of the rows that have not finished.
      fixed: constants of the rows, [B, ...].
      carry: loop variables of the rows, [B, ...], and scalars that all rows share.
      stages: largest number of batch sizes, the first included.

    Returns:
      The final carry.
    """
    rows = len(active(fixed, carry))
    fewest = rows * 5 // 8 if stages > 1 else 0
    carry = jax.lax.while_loop(
        lambda carry: active(fixed, carry).sum() > fewest, partial(advance, fixed), carry
    )
    if not fewest:
        return carry
    # Active rows come first. There are at most `fewest`, so all of them are kept. The others have
    # finished, and what `advance` makes of them does not matter.
    kept = jnp.argsort(~active(fixed, carry), stable=True)[:fewest]
    fixed, part = (map_rows(lambda leaf: leaf[kept], tree) for tree in (fixed, carry))
    part = until_done(advance, active, fixed, part, stages - 1)
    return map_rows(lambda some, whole: whole.at[kept].set(some), part, carry)


StepFunction = Callable[
    [PyTree, PyTree, Int[Array, " R"]], tuple[PyTree, Float[Array, "R V"], Float[Array, "R ... S"]]
]
# From what it draws with, such as a random key for each row, the index of the step and the
# log-probabilities of the next words to the words.
Sampler = Callable[[PyTree, Int[Array, ""], Float[Array, "R V"]], Int[Array, " R"]]

PARTS = 16  # into which `largest` cuts a long row


class SearchResult(NamedTuple):
    """The result of a search: a hypothesis for each row, or K for each sentence, [B, K, ...]."""

    tokens: Int[Array, "... T"]  # up to and including `EOS`, then `PAD`
    log_probability: Float[Array, "..."]  # of those tokens, in nats
    score: Float[Array, "..."]  # what hypotheses are ranked by
    weights: Float[Array, "... T S"]  # attention of each step, [..., L, N, T, S]


def permitted(
    words: Int[Array, "1 V"], index: Int[Array, ""], limits: Int[Array, " R"], min_length: int
) -> Bool[Array, "R V"]:
    """A mask of the words that may come next.

    `PAD` and `BOS` are never allowed, `EOS` only after `min_length` words, and only `EOS` as the
    last of `limits` words. So every hypothesis ends, and its log-probability is that of a complete
    sentence.
    """
    ends = words == EOS
    possible = (words != PAD) & (words != BOS) & (~ends | (index >= min_length))
    return jnp.where((index == limits - 1)[:, None], ends, possible)


def largest(values: Float[Array, "R V"], count: int) -> tuple[Array, Array]:
    """The `count` largest values of each row, in descending order, and their indices.

    If a row has fewer values, the rest is -∞. A long row is cut into parts, which are stacked: the
    largest values lie in the `count` columns with the largest maxima, and only those are sorted.
    """
    size = values.shape[1]
    width = -(-size // PARTS)
    if width < max(4 * count, PARTS):  # a short row is sorted as it is
        highest, places = jax.lax.top_k(up_to(values, count), count)
        return highest, jnp.minimum(places, size - 1)
    # Column c holds the values c, c + width, c + 2 width, …: one of each part.
    parts = [values[:, start : start + width] for start in range(0, size, width)]
    maxima = functools.reduce(jnp.maximum, [up_to(part, width) for part in parts])
    _, columns = jax.lax.top_k(maxima, count)
    # Each of the largest values is the maximum of its column, or lies below one: no other column
    # can hold one of them. What is left to sort is `count` columns of PARTS values.
    places = (columns[:, None] + width * jnp.arange(PARTS)[:, None]).reshape(len(values), -1)
    inside = jnp.take_along_axis(values, jnp.minimum(places, size - 1), axis=1)
    highest, nth = jax.lax.top_k(jnp.where(places < size, inside, -jnp.inf), count)
    return highest, jnp.take_along_axis(places, nth, axis=1)


def up_to(values: Float[Array, "R N"], count: int) -> Float[Array, "R M"]:
    """Pads rows to at least `count` values, with -∞."""
    lacking = max(count - values.shape[1], 0)
    return jnp.pad(values, ((0, 0), (0, lacking)), constant_values=-jnp.inf)


def greedy(
    rngs: Array | None, index: Int[Array, ""], log_probabilities: Float[Array, "R V"]
) -> Int[Array, " R"]:
    """Picks the most probable word, as greedy search does."""
    _, words = largest(log_probabilities, 1)
    return words[:, 0]


def sampler(temperature: float, top_k: int = 0, top_p: float = 1.0) -> Sampler:
    """A `Sampler` that samples from the most probable words.

    Each row has its own random key, so that its samples do not depend on the other rows.

    Args:
      temperature: divisor of the log-probabilities.
      top_k: sample from the k most probable words; 0: from all. Fan, Lewis and Dauphin 2018,
        section 5.
      top_p: sample from the fewest words with this probability in all. Holtzman et al. 2020,
        section 3.
    """

    def pick(rngs: Array, index: Array, log_probabilities: Array) -> Array:
        kept = top_k_top_p(jax.nn.log_softmax(log_probabilities / temperature), top_k, top_p)
        at_index = jax.vmap(jax.random.fold_in, in_axes=(0, None))(rngs, index)
        return jax.vmap(jax.random.categorical)(at_index, kept)

    return pick


def top_k_top_p(
    log_probabilities: Float[Array, "R V"], top_k: int, top_p: float
) -> Float[Array, "R V"]:
    """Sets all but the most probable words to -∞; ties with the last kept word are kept too."""
    if not top_k and top_p == 1:
        return log_probabilities
    descending = -jnp.sort(-log_probabilities, axis=-1)
    probabilities = jnp.exp(descending)
    # A word is kept if those before it have not yet reached p; so there is always one.
    kept = jnp.cumsum(probabilities, axis=-1) - probabilities < top_p
    if top_k:
        kept &= jnp.arange(descending.shape[-1]) < top_k
    least = jnp.where(kept, descending, jnp.inf).min(axis=-1, keepdims=True)
    return jnp.where(log_probabilities >= least, log_probabilities, -jnp.inf)


def generate(
    step: StepFunction,
    source: PyTree,
    state: PyTree,
    limits: Int[Array, " R"],
    rngs: Array | None,
    max_length: int,
    *,
    pick: Sampler = greedy,
    min_length: int = 0,
) -> SearchResult:
    """Decodes word by word, until the sentence of every row has ended.

    Args:
      step: computes one step; see the module.
      source: encoded sentences, for the step.
      state: the initial state.
      limits: the most words of each row, `EOS` included; 0 for a row that only fills up a batch,
        which is not decoded.
      rngs: a random key for each row, for `pick`; None if it draws nothing.
      max_length: T, at least the largest limit.
      pick: chooses the next word of each row; words that may not come next are at -∞.
      min_length: fewest words before `EOS`.
    """
    rows = len(limits)
    first = jnp.full(rows, BOS)
    _, _, weights = jax.eval_shape(step, source, state, first)
    tokens = jnp.full((rows, max_length), PAD)
    history = jnp.zeros((rows, max_length, *weights.shape[1:]), weights.dtype)

    def active(fixed: tuple, carry: tuple) -> Bool[Array, " R"]:
        _, limits, _ = fixed
        index, _, _, ended, *_ = carry
        return ~ended & (index < limits)  # with NaN probabilities, `EOS` may never come

    def advance(fixed: tuple, carry: tuple) -> tuple:
        source, limits, rngs = fixed
        index, state, before, ended, total, tokens, history = carry
        state, log_probabilities, weights = step(source, state, before)
        every = jnp.arange(log_probabilities.shape[1])[None]
        may = permitted(every, index, limits, min_length)
        picked = pick(rngs, index, jnp.where(may, log_probabilities, -jnp.inf))
        gained = jnp.take_along_axis(log_probabilities, picked[:, None], axis=-1)[:, 0]
        # Rows whose sentence has ended are computed along, and write padding without weight.
        word = jnp.where(ended, PAD, picked)
        weights = jnp.where(ended.reshape(-1, *[1] * (weights.ndim - 1)), 0, weights)
        return (
            index + 1,
            state,
            word,
            ended | (word == EOS),
            total + jnp.where(ended, 0, gained),
            tokens.at[:, index].set(word),
            history.at[:, index].set(weights),
        )

    index = jnp.zeros((), int)
    carry = (index, state, first, limits == 0, jnp.zeros(rows), tokens, history)
    *_, total, tokens, history = until_done(advance, active, (source, limits, rngs), carry)
    return SearchResult(tokens, total, total, jnp.moveaxis(history, 1, -2))
