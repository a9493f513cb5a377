"""Batches of few padded shapes, in an order that is a pure function of the data, seed and step."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import grain
import numpy as np

from attn_jax.tokens import EOS, PAD

Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids, without `EOS`


class Batch(NamedTuple):
    """Padded ids: source [B, S] and target [B, T], the target ended by `EOS`."""

    source: np.ndarray
    target: np.ndarray


class Bucket(NamedTuple):
    """Pairs of like length, and the shape that holds them."""

    indices: np.ndarray
    source_length: int  # S
    target_length: int  # T, with `EOS`


def pad(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Rows of ids as one array [B, length], `PAD` on the right."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def make_buckets(pairs: Sequence[Pair], count: int) -> list[Bucket]:
    """At most `count` buckets of about as many pairs each, the longest last.

    A bucket holds the shapes of those before it, so that their remainders fit into it.
    """
    lengths = np.array([(len(source), len(target) + 1) for source, target in pairs])
    longest = lengths.max(axis=1)
    edges = np.unique(np.quantile(longest, np.linspace(0, 1, count + 1)[1:], method="inverted_cdf"))
    membership = np.searchsorted(edges, longest)
    buckets, shape = [], np.zeros(2, int)
    for bucket in range(len(edges)):
        indices = np.flatnonzero(membership == bucket)
        shape = np.maximum(shape, lengths[indices].max(axis=0))
        buckets.append(Bucket(indices, *map(int, shape)))
    return buckets


class BucketedBatches:
    """Batch i of an endless training, random access, as Grain's iterator wants it.

    Each epoch sees every pair: what is left over in a bucket moves to the next longer one, and the
    last batch of the epoch is filled up with pairs drawn again.
    """

    def __init__(self, pairs: Sequence[Pair], batch_size: int, buckets: int, seed: int):
        self.pairs = pairs
        self.batch_size = batch_size
        self.buckets = make_buckets(pairs, buckets)
        self.seed = seed
        self.batches_per_epoch = -(-len(pairs) // batch_size)

    def __len__(self) -> int:
        return self.batches_per_epoch * 10**6  # epochs without end

    @functools.lru_cache(maxsize=2)  # noqa: B019  one source lives as long as its training
    def _epoch(self, epoch: int) -> list[tuple[Bucket, np.ndarray]]:
        rng = np.random.default_rng((self.seed, epoch))
        batches, left_over = [], np.empty(0, int)
        for bucket in self.buckets:
            indices = np.concatenate([left_over, rng.permutation(bucket.indices)])
            full = len(indices) - len(indices) % self.batch_size
            batches += [(bucket, part) for part in indices[:full].reshape(-1, self.batch_size)]
            left_over = indices[full:]
        if left_over.size:
            again = rng.integers(len(self.pairs), size=self.batch_size - left_over.size)
            batches.append((self.buckets[-1], np.concatenate([left_over, again])))
        return [batches[i] for i in rng.permutation(len(batches))]

    def __getitem__(self, index: int) -> Batch:
        epoch, position = divmod(int(index), self.batches_per_epoch)
        bucket, indices = self._epoch(epoch)[position]
        return Batch(
            pad([self.pairs[i][0] for i in indices], bucket.source_length),
            pad([[*self.pairs[i][1], EOS] for i in indices], bucket.target_length),
        )

    def from_step(self, step: int) -> Iterator[Batch]:
        """The batches from a step on, made ahead in a thread."""
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=16)
        iterator = iter(grain.MapDataset.source(self).to_iter_dataset(options))
        iterator.set_state({"next_index": step})
        return iterator

    def tokens(self) -> tuple[int, int]:
        """The tokens of an epoch, both sides, without padding and with it."""
        real = sum(len(source) + len(target) + 1 for source, target in self.pairs)
        padded = sum(
            self.batch_size * (bucket.source_length + bucket.target_length)
            for bucket, _ in self._epoch(0)
        )
        return real, padded
