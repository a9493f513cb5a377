"""Sentences in batches of few shapes, two of which are in flight at a time."""

import bisect
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")

BATCH = 64  # sentences decoded together, at most
IN_FLIGHT = 2  # batches: one uses the processors while the other cannot use them all
SHORTEST = 8  # the least length, in tokens, that sentences are padded to
WEIGHTS = 2**24  # most attention weights of a batch whose targets are as long as its sources


def in_order(lengths: Sequence[int], run: Callable, per_pair: int = 1) -> list:
    """Applies `run` to batches of sentences of similar length.

    The shapes of batches are those of `shapes`, so that few are compiled. A batch holds fewer
    sentences if they are long or have many weights each, to fit into memory.

    Args:
      lengths: tokens of each sentence.
      run: maps the indices, the rows (at least as many) and the padded length of a batch to the
        results of its sentences.
      per_pair: weights of a source and a target token: of all hypotheses, layers and heads.

    Returns:
      The results in the order of the sentences.
    """
    order = np.argsort(lengths, kind="stable")
    ordered = sorted(lengths)
    most = _most(len(order))
    batches = []
    first = 0
    while first < len(order):
        end = min(first + most, len(order))
        rows, length = _shape(most, ordered[end - 1], per_pair)
        while end - first > rows:  # fewer sentences may be shorter, of which more would fit
            end = first + rows
            rows, length = _shape(most, ordered[end - 1], per_pair)
        end = min(first + rows, bisect.bisect_right(ordered, length))
        batches.append((order[first:end], rows, length))
        first = end
    results = [None] * len(order)
    done = in_flight(lambda batch: list(run(*batch)), batches)
    for (indices, *_), of_batch in zip(batches, done, strict=True):
        for index, result in zip(indices, of_batch, strict=True):
            results[index] = result
    return results


def shapes(
    lengths: Iterable[int], counts: Iterable[int], per_pair: int = 1
) -> list[tuple[int, int]]:
    """All rows and padded lengths of the batches into which `in_order` can divide sentences.

    Args:
      lengths: tokens of the sentences.
      counts: how many sentences calls have.
      per_pair: as for `in_order`.
    """
    return sorted({_shape(_most(n), length, per_pair) for n in counts for length in lengths})


def in_flight(run: Callable[[T], R], batches: Iterable[T]) -> list[R]:
    """The results of `run` for each batch, of which some are computed at a time."""
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        return list(pool.map(run, batches))


def _most(count: int) -> int:
    """The rows of the batches of a call, unless they are long: a power of two."""
    return min(BATCH, _power_of_two(count))


def _shape(most: int, length: int, per_pair: int) -> tuple[int, int]:
    """The rows and the padded length of a batch whose longest sentence has this length."""
    padded = max(SHORTEST, _power_of_two(length))
    return max(1, min(most, WEIGHTS // (per_pair * padded**2))), padded


def _power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()
