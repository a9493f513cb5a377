"""The order of an epoch: which pairs share a batch, and in which padded shape."""

from typing import NamedTuple

import numpy as np

from attn_jax.settings.value import Value, setting


class Shape(NamedTuple):
    """The lengths to which a batch is padded."""

    source_length: int  # S
    target_length: int  # T, `EOS` included


class Plan(NamedTuple):
    """One batch of an epoch."""

    shape: Shape
    indices: np.ndarray  # of the pairs


def make_shapes(lengths: np.ndarray, count: int) -> list[Shape]:
    """At most `count` shapes, in increasing order.

    Pairs are sorted by their longer side, and dynamic programming cuts them into the ranges that
    need the least padding, one for each shape.

    Args:
      lengths: [n, 2], source and target length of each pair, `EOS` included in the target.
      count: largest number of shapes.
    """
    longest = lengths.max(axis=1)
    ends, counts = np.unique(longest, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])
    sizes = np.maximum.accumulate(lengths[np.argsort(longest)])[before[1:] - 1]
    # [i, j]: tokens, with padding, of the pairs from length i to length j in the shape of j.
    taken = (before[1:] - before[:-1, None]) * sizes.sum(axis=1)
    taken = np.where(np.tri(len(ends), dtype=bool).T, taken, np.inf)
    # The fewest tokens of all pairs up to each length, and the length at which their last shape
    # begins: first with one shape, then with one more in each iteration.
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
    """The index of the smallest shape that fits each pair."""
    held = np.all(lengths[:, None] <= np.array(shapes)[None], axis=2)
    return held.argmax(axis=1)


class Order(Value):
    """How the pairs of an epoch are put into batches."""

    def plan(
        self,
        lengths: np.ndarray,
        shapes: list[Shape],
        batch_size: int,
        rng: np.random.Generator,
    ) -> list[Plan]:
        """The batches of an epoch, in which no pair is dropped.

        Args:
          lengths: [n, 2], source and target length of each pair, `EOS` included in the target.
          shapes: in increasing order.
          batch_size: pairs in each batch.
          rng: draws what is random.
        """
        raise NotImplementedError


class Bucketed(Order):
    """Random batches of pairs of the same shape, in random order.

    Pairs of a shape that do not fill a batch move to the next larger shape. The last batch is
    filled up with random pairs of the epoch.
    """

    def plan(
        self,
        lengths: np.ndarray,
        shapes: list[Shape],
        batch_size: int,
        rng: np.random.Generator,
    ) -> list[Plan]:
        """The batches of an epoch."""
        membership = smallest(shapes, lengths)
        plans, left_over = [], np.empty(0, int)
        for number, shape in enumerate(shapes):
            members = rng.permutation(np.flatnonzero(membership == number))
            indices = np.concatenate([left_over, members])
            full = len(indices) - len(indices) % batch_size
            plans += [Plan(shape, part) for part in indices[:full].reshape(-1, batch_size)]
            left_over = indices[full:]
        if left_over.size:
            again = rng.integers(len(lengths), size=batch_size - left_over.size)
            plans.append(Plan(shapes[-1], np.concatenate([left_over, again])))
        return [plans[i] for i in rng.permutation(len(plans))]


class Sorted(Order):
    """Shuffles the pairs, sorts each group of `batches` batches by length, and cuts it into those.

    Bahdanau, Cho and Bengio 2014, appendix B.2. The last group is filled up with random pairs of
    the epoch.
    """

    batches: int = setting(20, low=1)

    def plan(
        self,
        lengths: np.ndarray,
        shapes: list[Shape],
        batch_size: int,
        rng: np.random.Generator,
    ) -> list[Plan]:
        """The batches of an epoch."""
        count = len(lengths)
        again = rng.integers(count, size=-count % batch_size)
        order = np.concatenate([rng.permutation(count), again])
        plans = []
        for begin in range(0, len(order), self.batches * batch_size):
            group = order[begin : begin + self.batches * batch_size]
            group = group[np.lexsort(lengths[group].T)]
            for indices in group.reshape(-1, batch_size):
                longest = lengths[indices].max(axis=0)
                plans.append(Plan(shapes[smallest(shapes, longest[None])[0]], indices))
        return plans


ORDERS: dict[str, type[Order]] = {one.name: one for one in (Bucketed, Sorted)}
