"""Batches of few padded shapes, in an order that is a pure function of the data, seed and step."""

import functools
from collections.abc import Callable, Iterator

import grain
import numpy as np

from attn_jax.config import Train, changes, train_after
from attn_jax.data.orders import Plan, make_shapes
from attn_jax.data.training_pairs import TrainingPairs
from attn_jax.settings.fields import LARGEST
from attn_jax.tokens import Batch


class Batches:
    """The batches of endless training as a random-access data source for Grain.

    Each epoch contains every pair. Where the size of batches changes, those that follow are of the
    order for the new size, from the number of steps done on.

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
        steps = [change.step or 0 for change in changes.read(config.change)]
        # From which steps on batches have which size.
        self._sizes = [(step, train_after(config, step).batch_size) for step in (0, *steps)]

    def __len__(self) -> int:
        return LARGEST  # the largest possible number of steps

    def per_epoch(self, step: int = 0) -> int:
        """The number of batches of an epoch, with the batch size of a step."""
        return -(-len(self.pairs) // self._size(step))

    @functools.lru_cache(maxsize=2)  # noqa: B019  the object lives as long as the training run
    def _epoch(self, epoch: int, batch_size: int) -> list[Plan]:
        rng = np.random.default_rng((self.seed, epoch))
        return self.config.order.plan(self.pairs.lengths, self.shapes, batch_size, rng)

    def _size(self, index: int) -> int:
        """The size of a batch."""
        return next(size for step, size in reversed(self._sizes) if step <= index)

    def __getitem__(self, index: int) -> Batch:
        batch_size = self._size(index)
        epoch, position = divmod(int(index), self.per_epoch(index))
        shape, indices = self._epoch(epoch, batch_size)[position]
        return self.pairs.batch(indices[self.share(batch_size)], *shape)

    def from_step(self, step: int) -> Iterator[Batch]:
        """The batches after the first `step` ones, prefetched in a thread."""
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=16)
        iterator = iter(grain.MapDataset.source(self).to_iter_dataset(options))
        iterator.set_state({"next_index": step})
        return iterator

    def tokens(self, step: int = 0) -> tuple[int, int]:
        """The numbers of tokens of an epoch, both sides, without and with padding.

        Args:
          step: of whose batch size.
        """
        real, size = int(self.pairs.lengths.sum()), self._size(step)
        return real, sum(size * sum(plan.shape) for plan in self._epoch(0, size))

    def summary(self, step: int = 0) -> str:
        """One line with the steps, tokens and shapes of an epoch, with the batch size of a step."""
        real, padded = self.tokens(step)
        one = len(self.shapes) == 1
        shapes = "1 shape" if one else f"{len(self.shapes)} shapes, each compiled when it comes up"
        size = self._size(step)
        few = len(self.pairs) < size
        return (
            f"an epoch: {self.per_epoch(step)} steps, {real} tokens, {padded} with padding "
            f"({100 * real / padded:.0f}% real), in {shapes}"
            + ("; a batch has more pairs than there are, which are repeated" if few else "")
        )
