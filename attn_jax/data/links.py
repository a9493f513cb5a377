"""Links of training pairs, which guide attention: where they come from, and as weights."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from attn_jax.config import LINKED_LEVELS, Data
from attn_jax.data.alignment_files import Links, check_links, iterate_pharaoh
from attn_jax.data.sentences import Example
from attn_jax.errors import InputError

AT_ONCE = 2**16  # pairs


class LinkTable:
    """The links of many pairs, which take 8 bytes each; those of one pair are a set as usual."""

    def __init__(self, links: Iterable[Links]):
        positions, offsets = array("I"), array("q", [0])
        for of_pair in links:
            positions.extend(chain.from_iterable(of_pair))
            offsets.append(len(positions) // 2)
        self._positions = np.frombuffer(positions, np.uint32).reshape(-1, 2)
        self._offsets = np.frombuffer(offsets, np.int64)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _of(self, number: int) -> np.ndarray:
        return self._positions[self._offsets[number] : self._offsets[number + 1]]

    def __iter__(self) -> Iterator[Links]:
        for number in range(len(self)):
            yield {(source, target) for source, target in self._of(number).tolist()}

    def suspicious(self, sizes: np.ndarray) -> bool:
        """Whether a link is beyond its sentence, or none is of a first word.

        Args:
          sizes: [n, 2], source and target words of each pair.
        """
        for first in range(0, len(self), AT_ONCE):
            offsets = self._offsets[first : first + AT_ONCE + 1]
            of_links = np.repeat(sizes[first : first + AT_ONCE], np.diff(offsets), axis=0)
            if np.any(self._positions[offsets[0] : offsets[-1]] >= of_links):
                return True
        return bool(self._positions.size) and bool(self._positions.min() > 0)

    def matrix(
        self, numbers: Sequence[int] | np.ndarray, source_length: int, target_length: int
    ) -> np.ndarray:
        """Links of some pairs as weights [B, T, S].

        They sum to 1 for each target word with links, else to 0.
        """
        weights = np.zeros((len(numbers), target_length, source_length), np.float32)
        for row, number in zip(weights, numbers, strict=True):
            source, target = self._of(number).T
            row[target, source] = 1
        return weights / np.maximum(weights.sum(axis=2, keepdims=True), 1)


def links_of(config: Data, examples: Iterable[Example[str]], sizes: np.ndarray) -> LinkTable:
    """The links of training examples: those of data.links, or those of generated data.

    Args:
      config: the options of the data.
      examples: the training examples, read only if they have the links.
      sizes: [n, 2], source and target words of each; of two sources, those of the first.

    Raises:
      InputError: there are none, they cannot be read, or they do not fit the sentences.
    """
    if not config.links:
        return LinkTable(_own(example, config.name) for example in examples)
    if not {config.source_level, config.target_level} <= LINKED_LEVELS:
        raise InputError(
            "data.links are between words: give data.source_level and data.target_level "
            f"word or symbol, got {config.source_level} and {config.target_level}"
        )
    links = LinkTable(iterate_pharaoh(Path(config.links)))
    if len(links) != len(sizes):
        raise InputError(
            f"{config.links} has {len(links)} lines, but there are {len(sizes)} training pairs"
        )
    if links.suspicious(sizes):
        check_links(links, sizes.tolist(), config.links, "subtract 1 from each number")
    return links


def _own(example: Example[str], name: str) -> Links:
    """The links that an example of generated data has."""
    if example.alignment is None:
        raise InputError(
            f"the data set {name!r} has no word alignments to guide attention with: copy, reverse "
            "and sort have in symbols, and text in words with data.links, a Pharaoh file"
        )
    return {(int(source), target) for target, source in enumerate(example.alignment)}
