"""Cut text as ids of a vocabulary, drawn sentence by sentence from memory-mapped files."""

from collections.abc import Iterator
from itertools import chain

import numpy as np

from attn_jax.data.cuts import Cut
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.tokens import PAD

AT_ONCE = 2**16  # sentences that are read at a time


class Encoded:
    """One side of a text, of which only the number of tokens of each sentence is in memory.

    Args:
      cut: the side.
      vocabulary: gives the ids.
    """

    def __init__(self, cut: Cut, vocabulary: Vocabulary):
        tokens = vocabulary.tokens_of(cut.types)
        self._size = len(vocabulary)
        # Plain views of what is mapped, whose slices are made in less time.
        self._types, self._offsets = np.asarray(cut.ids), np.asarray(cut.offsets)
        # The ids of all types, one after another, and which of them are those of a type.
        self._ids = np.array(vocabulary.ids(chain.from_iterable(tokens)), np.int32)
        self._counts = np.fromiter(map(len, tokens), np.int32, len(tokens))
        self._starts = np.cumsum(self._counts, dtype=np.int32) - self._counts
        self.lengths = np.concatenate(  # [n], without `EOS`
            [np.empty(0, np.int32), *(lengths for _, _, lengths in self._parts())]
        )

    def _parts(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """For many sentences at a time: which they are, their pretokens, and their lengths."""
        for first in range(0, len(self._offsets) - 1, AT_ONCE):
            ends = self._offsets[first : first + AT_ONCE + 1]
            types = self._types[ends[0] : ends[-1]]
            before = np.concatenate([[0], np.cumsum(self._counts[types])])
            lengths = np.diff(before[ends - ends[0]]).astype(np.int32)
            yield slice(first, first + len(lengths)), types, lengths

    def _spelt(self, types: np.ndarray) -> np.ndarray:
        """The ids of pretokens, one after another."""
        # The k-th pretoken fills the places from ends[k] - counts[k] to ends[k] of the result; its
        # ids begin at _starts[types[k]]. The difference of both leads from a place to its id.
        counts = self._counts[types]
        ends = np.cumsum(counts)
        places = np.arange(ends[-1] if len(ends) else 0)
        return self._ids[places + np.repeat(self._starts[types] - (ends - counts), counts)]

    def padded(self, numbers: np.ndarray, length: int, end: list[int]) -> np.ndarray:
        """Sentences by their numbers, as ids [B, length], each followed by `end` and `PAD`."""
        firsts, lasts = self._offsets[numbers], self._offsets[numbers + 1]
        ends = zip(firsts.tolist(), lasts.tolist(), strict=True)
        types = [self._types[first:last] for first, last in ends]
        lengths = self.lengths[numbers]
        columns = np.arange(length)
        rows = np.full((len(numbers), length), PAD, np.int32)
        rows[columns < lengths[:, None]] = self._spelt(np.concatenate(types))
        for place, one in enumerate(end):
            rows[np.arange(len(rows)), lengths + place] = one
        return rows

    def counts(self, chosen: np.ndarray) -> np.ndarray:
        """How often each id occurs in chosen sentences.

        Args:
          chosen: bool [n].
        """
        counts = np.zeros(self._size, np.int64)
        for part, types, lengths in self._parts():
            ids = self._spelt(types)[np.repeat(chosen[part], lengths)]
            counts += np.bincount(ids, minlength=self._size)
        return counts
