"""A training text as numbers of its pretokens: cut into words or characters in one pass.

A vocabulary is built from the pretokens, and each vocabulary may cut a pretoken further.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np

from attn_jax.data.sentences import Example, marked, parted, words_of
from attn_jax.tokens import BETWEEN, is_second

AT_ONCE = 4096  # sentences that are cut at a time, so that only their text is in memory
Cutter = Callable[[str], list[str]]

PRETOKENIZERS: dict[str, Cutter] = {
    "words": words_of,
    "characters": list,
    "tags": lambda text: [tag for word in words_of(text) for tag in word.split(";") if tag],
}


def pretokenizer(name: str) -> Cutter:
    """How a text is cut, by a name of `PRETOKENIZERS`, or by two names, of the texts in one."""
    first, between, second = name.partition(BETWEEN)
    if not between:
        return PRETOKENIZERS[name]

    def cut(text: str) -> list[str]:
        one, other = parted(text)
        of_first = PRETOKENIZERS[first](one)
        # Without a first text there is no sentence: its tags alone say nothing.
        return [*of_first, *marked(PRETOKENIZERS[second](other))] if of_first else []

    return cut


class Cut(NamedTuple):
    """One side of a text."""

    types: list[str]  # the different pretokens, in the order in which they first occur
    ids: np.ndarray  # the index of the type of each pretoken, one sentence after another
    offsets: np.ndarray  # [n + 1], where each of the n sentences begins, and where the last ends

    def counts(self) -> Counter[str]:
        """How often each pretoken occurs."""
        counts = np.zeros(len(self.types), np.int64)
        for first in range(0, len(self.ids), 2**20):  # which are widened to be counted
            counts += np.bincount(self.ids[first : first + 2**20], minlength=len(counts))
        named = zip(self.types, counts.tolist(), strict=True)
        return Counter({one: count for one, count in named if count})

    def sentences(self) -> Iterator[list[str]]:
        """The pretokens of each sentence."""
        for first in range(0, len(self.offsets) - 1, AT_ONCE):
            begin, *ends = self.offsets[first : first + AT_ONCE + 1].tolist()
            found = [self.types[one] for one in self.ids[begin : ends[-1]].tolist()]
            for start, end in pairwise([begin, *ends]):
                yield found[start - begin : end - begin]

    def of_source(self, second: bool) -> "Cut":
        """Only the pretokens of the first source, or of a second one."""
        chosen = np.array([is_second(one) == second for one in self.types], bool)
        kept = chosen[self.ids]
        before = np.concatenate([[0], np.cumsum(kept)])
        types = [one.removeprefix(BETWEEN) if second else one for one in self.types]
        return Cut(types, self.ids[kept], before[self.offsets])


class CutText(NamedTuple):
    """The pairs of a training text."""

    source: Cut
    target: Cut
    pairs: np.ndarray  # [n], a hash of the text of each pair, the same only in this process

    def lengths(self) -> np.ndarray:
        """The numbers of pretokens of the first source and of the target of each pair, [n, 2]."""
        sides = self.source.of_source(second=False), self.target
        return np.stack([np.diff(side.offsets) for side in sides], axis=1)

    def count_of(self, pairs: Iterable[tuple[str, str]]) -> int:
        """How many of some pairs of texts are pairs of this text."""
        hashes = np.fromiter(map(hash, pairs), np.int64)
        return int(np.isin(hashes, self.pairs).sum())


class _Side:
    """Cuts one side of a text, a part at a time."""

    def __init__(self, way: str):
        self._cutter = pretokenizer(way)
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__  # a new type gets the next number
        self._ids, self._lengths = [np.empty(0, np.uint8)], [np.zeros(1, np.int32)]

    def add(self, texts: Iterable[str]) -> None:
        cut = list(map(self._cutter, texts))
        self._lengths.append(np.fromiter(map(len, cut), np.int32, len(cut)))
        numbers = map(self._numbers.__getitem__, chain.from_iterable(cut))
        ids = np.fromiter(numbers, np.int32, self._lengths[-1].sum())
        # In as few bytes as hold the numbers so far.
        self._ids.append(ids.astype(np.min_scalar_type(len(self._numbers))))

    def cut(self) -> Cut:
        offsets = np.cumsum(np.concatenate(self._lengths), dtype=np.int64)
        return Cut(list(self._numbers), np.concatenate(self._ids), offsets)


def cut_pairs(examples: Iterable[Example[str]], ways: tuple[str, str]) -> CutText:
    """Cuts a text, which is gone through once.

    Args:
      examples: the text.
      ways: how source and target are cut, as `pretokenizer` takes it.
    """
    source, target = map(_Side, ways)
    hashes, examples = [np.empty(0, np.int64)], iter(examples)
    while part := list(islice(examples, AT_ONCE)):
        sources, targets, _ = zip(*part, strict=True)
        source.add(sources)
        target.add(targets)
        pairs = zip(sources, targets, strict=True)
        hashes.append(np.fromiter(map(hash, pairs), np.int64, len(part)))
    return CutText(source.cut(), target.cut(), np.concatenate(hashes))
