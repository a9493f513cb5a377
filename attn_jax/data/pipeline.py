"""Batches of few padded shapes, in an order that is a pure function of the data, seed and step."""

import functools
from collections.abc import Callable, Iterator

import grain
import numpy as np

from attn_jax.config import Train
from attn_jax.data.orders import Plan, make_shapes
from attn_jax.data.training_pairs import TrainingPairs
from attn_jax.settings.fields import LARGEST
from attn_jax.tokens import Batch


class Batches:
    """The batches of endless training as a random-access data source for Grain.

    Each epoch contains every pair. A run that goes on with batches of another size goes on by the
    number of steps done, in the order for the new size.

    Args:
      pairs: that training is on.
      config: the options of training.
      seed: of the order.
      share: which of the rows of a batch, of so many, are read; all if it is left out.
    """

    def __init__(
        self,
        pairs: TrainingPairs,
        config: Train,
        seed: int,
        share: Callable[[int], slice] = slice,
    ):
        self.pairs = pairs
        self.config = config
        self.seed = seed
        self.share = share
        self.shapes = make_shapes(pairs.lengths, config.buckets)

    def __len__(self) -> int:
        return LARGEST  # the largest possible number of steps

    @property
    def per_epoch(self) -> int:
        """The number of batches of an epoch."""
        return -(-len(self.pairs) // self.config.batch_size)

    @functools.lru_cache(maxsize=2)  # noqa: B019  the object lives as long as the training run
    def _epoch(self, epoch: int) -> list[Plan]:
        rng, size = np.random.default_rng((self.seed, epoch)), self.config.batch_size
        return self.config.order.plan(self.pairs.lengths, self.shapes, size, rng)

    def __getitem__(self, index: int) -> Batch:
        epoch, position = divmod(int(index), self.per_epoch)
        shape, indices = self._epoch(epoch)[position]
        return self.pairs.batch(indices[self.share(self.config.batch_size)], *shape)

    def from_step(self, step: int) -> Iterator[Batch]:
        """The batches after the first `step` ones, prefetched in a thread."""
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=16)
        iterator = iter(grain.MapDataset.source(self).to_iter_dataset(options))
        iterator.set_state({"next_index": step})
        return iterator

    def tokens(self) -> tuple[int, int]:
        """The numbers of tokens of an epoch, both sides, without and with padding."""
        padded = sum(sum(plan.shape) for plan in self._epoch(0))
        return int(self.pairs.lengths.sum()), self.config.batch_size * padded

    def summary(self) -> str:
        """One line with the steps, tokens and shapes of an epoch."""
        real, padded = self.tokens()
        one = len(self.shapes) == 1
        shapes = "1 shape" if one else f"{len(self.shapes)} shapes, each compiled when it comes up"
        few = len(self.pairs) < self.config.batch_size
        return (
            f"an epoch: {self.per_epoch} steps, {real} tokens, {padded} with padding "
            f"({100 * real / padded:.0f}% real), in {shapes}"
            + ("; a batch has more pairs than there are, which are repeated" if few else "")
        )
