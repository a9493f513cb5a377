"""Beam search: at each step the W most probable prefixes of each sentence are extended.

Histories are not copied when hypotheses change places: each step records where a hypothesis came
from, and those that are asked for are traced back at the end.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.decoding.options import NONE, LengthPenalty, uncovered
from attn_jax.decoding.search import (
    SearchResult,
    StepFunction,
    largest,
    map_rows,
    permitted,
    until_done,
)
from attn_jax.tokens import BOS, EOS, PAD


class Live(NamedTuple):
    """The prefixes that are extended."""

    state: PyTree  # [B, W, ...]
    words: Int[Array, "B W"]  # the last word of each
    totals: Float[Array, "B W"]  # log-probabilities; -∞ where there is no prefix
    attended: Float[Array, "B W S"]  # weights summed over the steps, mean over layers and heads


class Extensions(NamedTuple):
    """The X most probable extensions of the prefixes of a sentence, the most probable first."""

    words: Int[Array, "B X"]
    parents: Int[Array, "B X"]  # the place of the prefix
    totals: Float[Array, "B X"]  # log-probabilities


class Ended(NamedTuple):
    """The best finished hypotheses, best first."""

    scores: Float[Array, "B K"]  # -∞ where there is none
    totals: Float[Array, "B K"]  # log-probabilities
    steps: Int[Array, "B K"]  # the step of `EOS`
    places: Int[Array, "B K"]  # the place of the prefix before that step


class Trace(NamedTuple):
    """The choices of each step: place w after the step extends place `parents[w]` before it."""

    words: Int[Array, "B T W"]
    parents: Int[Array, "B T W"]
    weights: Float[Array, "B T W ..."]  # of the places before the step


def tiled(tree: PyTree, beam_size: int) -> PyTree:
    """Repeats each row of the leaves, [B, W, ...]; scalar leaves are left as they are."""
    return map_rows(lambda leaf: jnp.repeat(leaf[:, None], beam_size, axis=1), tree)


def flat(tree: PyTree) -> PyTree:
    """Reshapes leaves [B, W, ...] to [B·W, ...]; scalar leaves are left as they are."""
    return map_rows(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)


def beam(
    step: StepFunction,
    source: PyTree,
    state: PyTree,
    mask: Bool[Array, "B S"],
    limits: Int[Array, " B"],
    max_length: int,
    *,
    beam_size: int,
    n_best: int = 1,
    length_penalty: LengthPenalty = NONE,
    coverage_penalty: float = 0.0,
    min_length: int = 0,
) -> SearchResult:
    """Finds the K best hypotheses of each sentence.

    Each step takes the 2W most probable extensions of the prefixes of a sentence. Those among the
    first W that end in `EOS` are finished hypotheses; the W most probable of the others are the
    next prefixes. The search of a sentence stops when no prefix can become one of the K best. This
    does not change the result: log-probabilities only decrease, no length has a larger divisor
    than the limit, and the coverage penalty only lowers a score. Graves 2012; Wu et al. 2016,
    section 7.

    Args:
      step: computes one step, for B rows; see `search`.
      source: encoded sentences, for the step, shared by all prefixes of a sentence.
      state: the initial state, of B rows.
      mask: True at real source positions.
      limits: the most words of each sentence, `EOS` included; 0 for a row that only fills up a
        batch.
      max_length: T, at least the largest limit.
      beam_size: W, the beam size.
      n_best: K, at most W.
      length_penalty: maps a length to the divisor of the log-probability; see `penalties`.
      coverage_penalty: β, the weight of the penalty for source words without attention.
      min_length: fewest words before `EOS`.

    Returns:
      Hypotheses [B, K], best first; if fewer than K were found, the others have a score of -∞.
    """
    rows, length = mask.shape
    state = tiled(state, beam_size)  # each sentence has W prefixes, each with a state
    first = jnp.full((rows, beam_size), BOS)
    # `step` takes one prefix of each sentence. Mapped over the second axis, it takes all W of them,
    # which share the encoded source.
    axes = jax.tree.map(lambda leaf: 1 if leaf.ndim else None, state)
    step = jax.vmap(step, in_axes=(None, axes, 1), out_axes=(axes, 1, 1))
    _, _, weights = jax.eval_shape(step, source, state, first)  # only for the shape of the weights
    # The first place holds the empty prefix, and the others none.
    has_prefix = (limits > 0)[:, None] & (jnp.arange(beam_size) == 0)
    beginning = jnp.where(has_prefix, 0.0, -jnp.inf)
    live = Live(state, first, beginning, jnp.zeros((rows, beam_size, length)))
    nothing = jnp.full((rows, n_best), -jnp.inf)
    ended = Ended(nothing, nothing, jnp.zeros_like(nothing, int), jnp.zeros_like(nothing, int))
    shape = rows, max_length, beam_size
    trace = Trace(
        jnp.full(shape, PAD),
        jnp.zeros(shape, int),
        jnp.zeros((*shape, *weights.shape[2:]), weights.dtype),
    )

    def active(fixed: tuple, carry: tuple) -> Bool[Array, " B"]:
        _, _, limits = fixed
        _, live, ended, _ = carry
        # The best score that a prefix can still reach: it gains no more log-probability, and is
        # divided by the largest divisor. The search goes on while this beats the K-th best.
        return live.totals.max(axis=1) / length_penalty(limits) > ended.scores[:, -1]

    def advance(fixed: tuple, carry: tuple) -> tuple:
        source, mask, limits = fixed
        index, live, ended, trace = carry
        state, log_probabilities, weights = step(source, live.state, live.words)
        # Attention of each prefix to each source word so far, for the coverage penalty.
        attended = live.attended + weights.reshape(*live.words.shape, -1, length).mean(axis=2)
        every = jnp.arange(log_probabilities.shape[-1])[None]
        allowed = permitted(every, index, limits, min_length)[:, None]
        # 2W, since at most W of them end: each prefix has one extension by `EOS`. So at least W
        # are left that do not end, and the beam stays full.
        extended = extensions(live, jnp.where(allowed, log_probabilities, -jnp.inf), 2 * beam_size)
        scores = extended.totals / length_penalty(index + 1)
        if coverage_penalty:
            taken = uncovered(attended, mask[:, None])
            scores += coverage_penalty * jnp.take_along_axis(taken, extended.parents, axis=1)
        ended = best_of(ended, finished(extended, scores, index, beam_size))
        live, parents = surviving(extended, state, attended, beam_size)
        # The places change with each step: only who extends whom is written down.
        trace = jax.tree.map(
            lambda whole, new: whole.at[:, index].set(new),
            trace,
            Trace(live.words, parents, weights),
        )
        return index + 1, live, ended, trace

    fixed, carry = (source, mask, limits), (jnp.zeros((), int), live, ended, trace)
    _, _, ended, trace = until_done(advance, active, fixed, carry)
    return read_back(trace, ended)


def extensions(live: Live, log_probabilities: Float[Array, "B W V"], count: int) -> Extensions:
    """The most probable extensions of the prefixes by a word."""
    rows = len(live.words)
    # First the best words of each prefix, then the best of these: cheaper than W·V at once.
    gained, words = largest(flat(log_probabilities), count)
    totals = (live.totals.reshape(-1, 1) + gained).reshape(rows, -1)
    totals, places = jax.lax.top_k(totals, count)  # places in [W·count]
    words = jnp.take_along_axis(words.reshape(rows, -1), places, axis=1)
    # `count` words of each prefix lie beside one another: the quotient is the prefix.
    return Extensions(words, places // gained.shape[1], totals)


def finished(
    extended: Extensions, scores: Float[Array, "B X"], index: Int[Array, ""], beam_size: int
) -> Ended:
    """Those of the first W extensions that end in `EOS`; the others have a score of -∞."""
    ends = (extended.words == EOS) & (extended.totals > -jnp.inf)
    scores = jnp.where(ends, scores, -jnp.inf)
    new = Ended(scores, extended.totals, jnp.full_like(extended.parents, index), extended.parents)
    return jax.tree.map(lambda leaf: leaf[:, :beam_size], new)


def surviving(
    extended: Extensions, state: PyTree, attended: Float[Array, "B W S"], beam_size: int
) -> tuple[Live, Int[Array, "B W"]]:
    """The W most probable extensions that do not end in `EOS`, and the places of their prefixes."""
    totals, kept = jax.lax.top_k(
        jnp.where(extended.words == EOS, -jnp.inf, extended.totals), beam_size
    )
    parents, words = (
        jnp.take_along_axis(leaf, kept, axis=1) for leaf in (extended.parents, extended.words)
    )
    # A prefix that is extended twice has its state copied, one that is not extended is dropped.
    sentences = jnp.arange(len(parents))[:, None]
    state = map_rows(lambda leaf: leaf[sentences, parents], state)
    attended = jnp.take_along_axis(attended, parents[..., None], axis=1)
    return Live(state, words, totals, attended), parents


def best_of(ended: Ended, new: Ended) -> Ended:
    """The best hypotheses of both, as many as `ended` holds."""
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), ended, new)
    _, kept = jax.lax.top_k(both.scores, ended.scores.shape[1])
    return jax.tree.map(lambda leaf: jnp.take_along_axis(leaf, kept, axis=1), both)


def read_back(trace: Trace, ended: Ended) -> SearchResult:
    """Traces the finished hypotheses back from their last words to their first."""

    def back(place: Int[Array, "B K"], inputs: tuple) -> tuple:
        index, step = inputs
        # `place` is where each hypothesis is after this step; its parent is where it was before.
        parents = jnp.take_along_axis(step.parents, place, axis=1)
        words = jnp.take_along_axis(step.words, place, axis=1)
        # A hypothesis enters at its last step, with the place that was noted when it ended. Later
        # steps are padding.
        last, inside = index == ended.steps, index <= ended.steps
        place = jnp.where(last, ended.places, jnp.where(inside, parents, 0))
        words = jnp.where(last, EOS, jnp.where(inside, words, PAD))
        shape = *place.shape, *[1] * (step.weights.ndim - 2)
        weights = jnp.take_along_axis(step.weights, place.reshape(shape), axis=1)
        return place, (words, jnp.where(inside.reshape(shape), weights, 0))

    exists = ended.scores > -jnp.inf
    ended = ended._replace(steps=jnp.where(exists, ended.steps, -1))
    trace = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), trace)
    indices = jnp.arange(len(trace.words))
    _, (words, weights) = jax.lax.scan(
        back, jnp.zeros_like(ended.places), (indices, trace), reverse=True
    )
    return SearchResult(
        jnp.moveaxis(words, 0, -1),
        jnp.where(exists, ended.totals, 0),
        ended.scores,
        jnp.moveaxis(weights, 0, -2),
    )
