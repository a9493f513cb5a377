"""The ways of a pointer through the source that write known words: sums, maxima, shortest edits.

A step begins with the pointer at place k, reads on past words that it deletes, and then writes one
word: it copies x_k, replaces it, or inserts a word before it. After the first two, the pointer is
at k + 1. Behind the last word is one more place, where words can only be inserted.

B sentences, S positions, P = S + 1 places of the pointer, T steps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.models.hidden_markov import first_place
from attn_jax.models.marginal import LOW, Over, best
from attn_jax.models.protocols import Source
from attn_jax.tokens import EOS, PAD


class Scores(NamedTuple):
    """What the ways to write known words are worth, as logarithms."""

    delete: Float[Array, "B *T P"]
    write: Float[Array, "B *T P"]
    stay: Float[Array, "B *T P"]  # the word is inserted
    go: Float[Array, "B *T P"]  # it is copied, or replaces


def reached(
    before: Float[Array, "B P"], delete: Float[Array, "B P"], ends: Bool[Array, "B P"], over: Over
) -> Float[Array, "B P"]:
    """Σ_{j≤k} f(j) Π_{j≤l<k} p(delete l), from the beliefs of the pointer before deletions."""
    passed = jnp.cumsum(delete, axis=1) - delete  # over l < k
    places = jnp.arange(delete.shape[1])
    is_behind = jnp.cumsum(ends, axis=1) - ends > 0
    possible = (places >= places[:, None]) & ~is_behind[:, None]
    passes = jnp.where(possible, passed[:, None] - passed[..., None], LOW)
    return over(before[..., None] + passes, 1)


def written(at: Float[Array, "B P"], scores: Scores, over: Over) -> Float[Array, "B P"]:
    """The pointer after a word that was written at a place: there, or at the next place."""
    moved = jnp.pad((at + scores.go)[:, :-1], ((0, 0), (1, 0)), constant_values=LOW)
    return over(jnp.stack([at + scores.stay, moved]), 0)


def forward(
    scores: Scores, ends: Bool[Array, "B P"], real: Bool[Array, "B T"], over: Over
) -> tuple[Float[Array, " B"], Float[Array, "B T P"]]:
    """The sum over all ways to write known words, or with `best` the maximum.

    Args:
      scores: of each step and place.
      ends: True at the place behind the last word.
      real: False at steps of padding, which leave the pointer where it is.
      over: `total` or `best`.

    Returns:
      log p(y | x), and log p(word i is written at place k | y_<i, x).
    """

    def advance(before: Array, inputs: tuple) -> tuple[Array, Array]:
        scores, real = inputs
        at = reached(before, scores.delete, ends, over) + scores.write
        after = jnp.where(real[:, None], written(at, scores, over), before)
        return after, at - over(before, 1)[:, None]

    by_step = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (scores, real))
    last, prior = jax.lax.scan(advance, first_place(scores.stay[:, 0]), by_step)
    return over(last, 1), jnp.swapaxes(prior, 0, 1)


def shortest_edit(target: Int[Array, "B T"], source: Source) -> Scores:
    """1 where the shortest edit deletes, writes, inserts, and copies or replaces; else 0.

    Levenshtein 1966. It ends behind the last word.
    """
    ends, is_end = ends_of(source), (target == EOS)[..., None]
    inside = inside_of(source)[:, None]
    nothing = jnp.zeros((*target.shape, ends.shape[1]))
    costs = Scores(
        delete=nothing - inside,
        write=nothing,
        stay=jnp.where(is_end, jnp.where(ends[:, None], 0.0, LOW), nothing - 1),
        go=jnp.where(inside & ~is_end, jnp.where(same_words(source, target), 0.0, -1.0), LOW),
    )

    def shortest(costs: Scores) -> Float[Array, ""]:
        return forward(costs, ends, target != PAD, best)[0].sum()

    return jax.grad(shortest)(costs)


def same_words(source: Source, word: Int[Array, " B *T"]) -> Bool[Array, "B *T P"]:
    """Whether word i is that of place k."""
    shape = len(word), *[1] * (word.ndim - 1), source.copies.shape[1]
    same = (source.copies.reshape(shape) == word[..., None]) & source.first_mask.reshape(shape)
    return jnp.pad(same, [(0, 0)] * word.ndim + [(0, 1)])


def inside_of(source: Source) -> Bool[Array, "B P"]:
    """Whether a place is that of a word."""
    return jnp.pad(source.first_mask, ((0, 0), (0, 1)))


def ends_of(source: Source) -> Bool[Array, "B P"]:
    """Whether a place is the one behind the last word."""
    inside = inside_of(source)
    return ~inside & jnp.pad(inside, ((0, 0), (1, 0)), constant_values=True)[:, :-1]
