"""Text that has been cut into words or characters, whatever vocabulary is to read it."""

import hashlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedIOBase
from typing import NamedTuple

import numpy as np

from attn_jax.data.pairs import Example

AT_ONCE = 4096  # pairs that are cut at a time


class Cut(NamedTuple):
    """One side of a text as numbers of its pretokens, which may lie in memory-mapped files."""

    types: Sequence[str]  # the different pretokens, in the order in which they first occur
    ids: np.ndarray  # the index of the type of each pretoken, one sentence after another
    offsets: np.ndarray  # [n + 1], where each of the n sentences begins, and where the last ends

    def counts(self) -> Counter[str]:
        """How often each pretoken occurs."""
        counts = np.zeros(len(self.types), np.int64)
        for first in range(0, len(self.ids), 2**20):
            counts += np.bincount(self.ids[first : first + 2**20], minlength=len(counts))
        return Counter(dict(zip(self.types, counts.tolist(), strict=True)))

    def sentence(self, number: int) -> list[str]:
        """The pretokens of a sentence."""
        first, last = self.offsets[number : number + 2]
        return [self.types[one] for one in self.ids[first:last]]


class CutText(NamedTuple):
    """The pairs of a split."""

    source: Cut
    target: Cut
    digests: np.ndarray  # [n], of the text of each pair, by which equal pairs are found

    def lengths(self) -> np.ndarray:
        """The numbers of source and target pretokens of each pair, [n, 2]."""
        return np.stack([np.diff(side.offsets) for side in (self.source, self.target)], axis=1)

    def seen_in(self, other: "CutText") -> int:
        """How many of these pairs are among those of another, larger split."""
        seen = np.zeros(len(self.digests), bool)
        for first in range(0, len(other.digests), 2**20):
            seen |= np.isin(self.digests, other.digests[first : first + 2**20])
        return int(seen.sum())


Cutter = Callable[[str], list[str]]


class SideWriter:
    """Cuts one side of a text, a part at a time.

    Args:
      cutter: cuts a text.
      file: takes the ids as `np.int32`.
    """

    def __init__(self, cutter: Cutter, file: BufferedIOBase):
        self._cutter, self._file = cutter, file
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__  # a new type gets the next number
        self._lengths: list[np.ndarray] = []

    def add(self, texts: Iterable[str]) -> None:
        """Cuts the texts that follow."""
        cut = list(map(self._cutter, texts))
        lengths = np.fromiter(map(len, cut), np.int32, len(cut))
        numbers = map(self._numbers.__getitem__, itertools.chain.from_iterable(cut))
        self._file.write(np.fromiter(numbers, np.int32, lengths.sum()).tobytes())
        self._lengths.append(lengths)

    def types(self) -> list[str]:
        """The different pretokens so far, in the order of their numbers."""
        return list(self._numbers)

    def offsets(self) -> np.ndarray:
        """Where each sentence begins, and where the last one ends."""
        return np.cumsum(np.concatenate([[0], *self._lengths]), dtype=np.int64)

    def id_type(self) -> np.dtype:
        """The smallest type that holds all ids."""
        return np.min_scalar_type(max(len(self._numbers) - 1, 0))

    def ids(self) -> Iterator[np.ndarray]:
        """The ids, a part at a time, of `id_type`."""
        self._file.seek(0)
        while part := self._file.read(2**20):
            yield np.frombuffer(part, np.int32).astype(self.id_type())


def cut_pairs(
    examples: Iterable[Example[str]],
    cutters: tuple[Cutter, Cutter],
    files: tuple[BufferedIOBase, BufferedIOBase],
) -> tuple[SideWriter, SideWriter, np.ndarray]:
    """Cuts a text in one pass; returns its sides and the digests of its pairs."""
    source, target = map(SideWriter, cutters, files)
    digests = []
    examples = iter(examples)
    while part := list(itertools.islice(examples, AT_ONCE)):
        source.add(example.source for example in part)
        target.add(example.target for example in part)
        pairs = (_digest(example.source, example.target) for example in part)
        digests.append(np.frombuffer(b"".join(pairs), np.uint64))
    return source, target, np.concatenate(digests or [np.empty(0, np.uint64)])


def _digest(source: str, target: str) -> bytes:
    # Two of 10 million different pairs share a digest once in some hundred thousand such texts.
    text = f"{len(source)} {source}{target}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
