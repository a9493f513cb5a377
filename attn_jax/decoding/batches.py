"""Sentences in batches of few shapes, two of which are in flight at a time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BATCH = 64  # sentences decoded together, at most
IN_FLIGHT = 2  # batches: one uses the processors while the other cannot use them all
SHORTEST = 8  # the least length, in tokens, that sentences are padded to
WEIGHTS = 2**24  # most attention weights of a batch whose targets are as long as its sources


def in_order(lengths: Sequence[int], run: Callable, per_pair: int = 1) -> list:
    """Applies `run` to batches of sentences of similar length.

    Lengths, and the rows of a single batch, are rounded up to powers of two, so that few shapes are
    compiled. A batch holds fewer sentences if they are long or have many weights each, to fit into
    memory.

    Args:
      lengths: tokens of each sentence.
      run: maps the indices, the rows (at least as many) and the padded length of a batch to the
        results of its sentences.
      per_pair: weights of a source and a target token: of all hypotheses, layers and heads.

    Returns:
      The results in the order of the sentences.
    """
    order = np.argsort(lengths, kind="stable")
    most = min(BATCH, _power_of_two(len(lengths)))
    batches = []
    first = 0
    while first < len(order):
        longest = lengths[order[min(first + most, len(order)) - 1]]
        rows = max(1, min(most, WEIGHTS // (per_pair * _padded(longest) ** 2)))
        indices = order[first : first + rows]
        batches.append((indices, rows, _padded(lengths[indices[-1]])))
        first += rows
    results = [None] * len(lengths)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        done = pool.map(lambda batch: list(run(*batch)), batches)
        for (indices, *_), of_batch in zip(batches, done, strict=True):
            for index, result in zip(indices, of_batch, strict=True):
                results[index] = result
    return results


def _padded(length: int) -> int:
    return max(SHORTEST, _power_of_two(length))


def _power_of_two(number: int) -> int:
    """The smallest power of two that is at least `number`."""
    return 1 << max(number - 1, 0).bit_length()
