"""Sentences in batches of few shapes, two of which are in flight at a time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

BATCH = 64  # sentences decoded together, at most
AT_ONCE = 2  # batches under way: one uses the processors while the other cannot use them all
PAIRS = 2**21  # of source and target tokens, at most, whose weights are held for a batch


def in_order(lengths: Sequence[int], run: Callable, hypotheses: int = 1) -> list:
    """`run` over batches of sentences of like length, its results in the order of the sentences.

    Lengths, and the rows of a single batch, are rounded up, so that few shapes are compiled. Of
    long sentences, or with several hypotheses of each, a batch holds fewer, to fit the memory.
    """
    order = np.argsort(lengths, kind="stable")
    most = min(BATCH, _power_of_two(len(lengths)))
    batches = []
    first = 0
    while first < len(order):
        longest = lengths[order[min(first + most, len(order)) - 1]]
        rows = max(1, min(most, PAIRS // (hypotheses * _padded(longest) ** 2)))
        indices = order[first : first + rows]
        batches.append((indices, rows, _padded(lengths[indices[-1]])))
        first += rows
    results = [None] * len(lengths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda batch: list(run(*batch)), batches)
        for (indices, *_), own in zip(batches, done, strict=True):
            for index, result in zip(indices, own, strict=True):
                results[index] = result
    return results


def _padded(length: int) -> int:
    return max(8, _power_of_two(length))


def _power_of_two(number: int) -> int:
    """The smallest that is not below a number."""
    return 1 << max(number - 1, 0).bit_length()
