"""The order of an epoch: which pairs share a batch, and in which padded shape."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attn_jax.errors import InputError


class Shape(NamedTuple):
    """What the padded arrays of a batch are sized for."""

    source_length: int  # S
    target_length: int  # T, with `EOS`


class Plan(NamedTuple):
    """One batch of an epoch."""

    shape: Shape
    indices: np.ndarray  # of the pairs


def make_shapes(lengths: np.ndarray, count: int) -> list[Shape]:
    """At most `count` shapes, each larger than those before, that pad as little as possible.

    By dynamic programming over the lengths at which shapes may end.

    Args:
      lengths: [n, 2] of the pairs, source and target with `EOS`.
    """
    longest = lengths.max(axis=1)
    ends, counts = np.unique(longest, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    sizes = np.maximum.accumulate(lengths[np.argsort(longest)])[before[1:] - 1]
    # What the pairs from one length to another take when they share the shape of the latter.
    taken = (before[1:] - before[:-1, None]) * sizes.sum(axis=1)
    taken = np.where(np.tri(len(ends), dtype=bool).T, taken, np.inf)
    # The least that all pairs up to a length can take, and at which length their last shape begins:
    # with one shape, then with one more.
    least, firsts = taken[0], []
    for _ in range(min(count, len(ends)) - 1):
        sums = np.concatenate([[0], least[:-1]])[:, None] + taken
        least = sums.min(axis=0)
        firsts.append(sums.argmin(axis=0))
    last = len(ends)
    shapes = []
    for first in [*reversed(firsts), np.zeros_like(ends)]:
        if last:
            shapes.append(Shape(*map(int, sizes[last - 1])))
            last = int(first[last - 1])
    return shapes[::-1]


def smallest(shapes: list[Shape], lengths: np.ndarray) -> np.ndarray:
    """The number of the smallest shape that holds each pair."""
    held = np.all(lengths[:, None] <= np.array(shapes)[None], axis=2)
    return held.argmax(axis=1)


def bucketed(
    lengths: np.ndarray, shapes: list[Shape], batch_size: int, rng: np.random.Generator
) -> list[Plan]:
    """Batches of pairs of one shape, in random order.

    What is left over of a shape moves to the next longer one, and the last batch is filled up with
    pairs drawn again, so that every pair is seen.
    """
    membership = smallest(shapes, lengths)
    plans, left_over = [], np.empty(0, int)
    for number, shape in enumerate(shapes):
        own = rng.permutation(np.flatnonzero(membership == number))
        indices = np.concatenate([left_over, own])
        full = len(indices) - len(indices) % batch_size
        plans += [Plan(shape, part) for part in indices[:full].reshape(-1, batch_size)]
        left_over = indices[full:]
    if left_over.size:
        again = rng.integers(len(lengths), size=batch_size - left_over.size)
        plans.append(Plan(shapes[-1], np.concatenate([left_over, again])))
    return [plans[i] for i in rng.permutation(len(plans))]


def sorted_in_groups(
    lengths: np.ndarray,
    shapes: list[Shape],
    batch_size: int,
    rng: np.random.Generator,
    *,
    batches: int = 20,
) -> list[Plan]:
    """Pairs in random order, each so many batches of them sorted by length and cut.

    Bahdanau, Cho and Bengio 2014, appendix B.2. The last batch is filled up with pairs drawn again.

    Raises:
      InputError: `batches` is less than 1.
    """
    if batches < 1:
        raise InputError(f"sorted: batches must be at least 1, got {batches}")
    count = len(lengths)
    again = rng.integers(count, size=-count % batch_size)
    order = np.concatenate([rng.permutation(count), again])
    plans = []
    for begin in range(0, len(order), batches * batch_size):
        group = order[begin : begin + batches * batch_size]
        group = group[np.lexsort(lengths[group].T)]
        for indices in group.reshape(-1, batch_size):
            longest = lengths[indices].max(axis=0)
            plans.append(Plan(shapes[smallest(shapes, longest[None])[0]], indices))
    return plans


ORDERS: dict[str, Callable[..., list[Plan]]] = {"bucketed": bucketed, "sorted": sorted_in_groups}
