"""Training pairs as ids, and their batches of few padded shapes.

The order of batches is a pure function of the data, the seed and the step.
"""

import functools
from collections.abc import Callable, Iterator
from itertools import chain

import grain
import numpy as np

from attn_jax.config import Train
from attn_jax.data.copying import Open, copied, copies_of
from attn_jax.data.links import LinkTable
from attn_jax.data.pretokens import Cut, CutText
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.recipe.orders import Plan, make_shapes
from attn_jax.settings.fields import LARGEST
from attn_jax.tokens import EOS, PAD, Batch, Copyable

AT_ONCE = 2**16  # sentences whose ids are looked up at a time


class Ids:
    """One side of a text as ids of a vocabulary, one sentence after another in one array.

    Args:
      cut: the side.
      vocabulary: gives the ids.
    """

    def __init__(self, cut: Cut, vocabulary: Vocabulary | Open):
        self._size = len(vocabulary)
        tokens = vocabulary.tokens_of(cut.types)
        # The ids of all types, one after another; how many those of a type are, and from where.
        spelt = vocabulary.ids(chain.from_iterable(tokens))
        of_types = np.array(spelt, np.min_scalar_type(self._size))
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
        starts = np.cumsum(counts) - counts
        ids, lengths = [of_types[:0]], [np.empty(0, np.int32)]
        for first in range(0, len(cut.offsets) - 1, AT_ONCE):
            ends = cut.offsets[first : first + AT_ONCE + 1]
            types = cut.ids[ends[0] : ends[-1]]
            # The k-th pretoken fills the places from before[k] to before[k + 1] of the result, and
            # its ids begin at its start: the difference leads from a place to its id.
            before = np.concatenate([[0], np.cumsum(counts[types])])
            shifts = np.repeat(starts[types] - before[:-1], counts[types])
            ids.append(of_types[np.arange(before[-1]) + shifts])
            lengths.append(np.diff(before[ends - ends[0]]).astype(np.int32))
        self._ids, self.lengths = np.concatenate(ids), np.concatenate(lengths)  # without `EOS`
        self._offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def padded(self, numbers: np.ndarray, length: int, end: list[int]) -> np.ndarray:
        """Sentences by their numbers, as ids [B, length], each followed by `end` and `PAD`."""
        rows = np.full((len(numbers), length), PAD, np.int32)
        for row, number in zip(rows, numbers.tolist(), strict=True):
            sentence = self._ids[self._offsets[number] : self._offsets[number + 1]]
            row[: len(sentence)] = sentence
            row[len(sentence) : len(sentence) + len(end)] = end
        return rows

    def counts(self, chosen: np.ndarray) -> np.ndarray:
        """How often each id occurs in chosen sentences.

        Args:
          chosen: bool [n].
        """
        counts = np.zeros(self._size, np.int64)
        for first in range(0, len(chosen), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            ends = self._offsets[first : first + AT_ONCE + 1]
            ids = self._ids[ends[0] : ends[-1]][np.repeat(chosen[part], self.lengths[part])]
            counts += np.bincount(ids, minlength=self._size)
        return counts


class TrainingPairs:
    """The pairs of a text of which each side has at least one token, and not too many.

    Args:
      text: the text.
      source: the source vocabulary.
      target: the target vocabulary.
      max_length: most tokens of a side.
      links: of all pairs of the text, where attention is guided.
      copying: whether the model copies words, which makes sources `Copyable`.
    """

    def __init__(
        self,
        text: CutText,
        source: Vocabulary,
        target: Vocabulary,
        max_length: int,
        links: LinkTable | None = None,
        copying: bool = False,
    ):
        self._sides = Ids(text.source, source), Ids(text.target, target)
        self._links, self._known, self._open = links, len(target), None
        if copying:
            others: dict[str, int] = {}
            sides = (text.source, source), (text.target, target)
            self._open = [Ids(cut, Open(side, target, others)) for cut, side in sides]
        lengths = np.stack([side.lengths for side in self._sides], axis=1)
        self._fits = np.all((lengths > 0) & (lengths <= max_length), axis=1)
        self._numbers = np.flatnonzero(self._fits)
        # [n, 2], source and target tokens of each pair, `EOS` included in the target.
        self.lengths = lengths[self._numbers] + np.array([0, 1], np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def left_out(self) -> int:
        """The number of pairs that are empty or too long."""
        return len(self._fits) - len(self)

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How often each source and each target id occurs."""
        source, target = self._sides
        return source.counts(self._fits), target.counts(self._fits)

    def batch(self, indices: np.ndarray, source_length: int, target_length: int) -> Batch:
        """Some pairs, padded to these lengths."""
        numbers = self._numbers[indices]
        (source, target), links = self._sides, self._links
        ids = source.padded(numbers, source_length, [])
        if self._open is None:
            of_target = target.padded(numbers, target_length, [EOS])
        else:
            source, target = self._open
            of_source = source.padded(numbers, source_length, [])
            ids = Copyable(ids, copies_of(of_source, self._known))
            of_target = copied(target.padded(numbers, target_length, [EOS]), of_source, self._known)
        return Batch(
            ids,
            of_target,
            None if links is None else links.matrix(numbers, source_length, target_length),
        )


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
