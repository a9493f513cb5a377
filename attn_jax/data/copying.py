"""The ids with which source words are copied that the target vocabulary lacks: see `Copyable`.

Here, open ids are those of `Vocabulary.open_ids`: an unknown word has a number of its own, the same
on both sides. V is the number of words of the target vocabulary.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

from attn_jax.data.sentences import pad
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.tokens import EOS, UNK, Copyable


class Open:
    """Cuts pretokens as a vocabulary does, and gives the tokens open ids of the target's.

    Args:
      side: the vocabulary of the side that is cut.
      target: the target vocabulary.
      others: the numbers of its unknown tokens, of both sides.
    """

    def __init__(self, side: Vocabulary, target: Vocabulary, others: dict[str, int]):
        self.tokens_of = side.tokens_of
        self._target, self._others = target, others

    def __len__(self) -> int:
        return np.iinfo(np.int32).max  # no more can be told apart

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The open ids of tokens."""
        return self._target.open_ids(tokens, self._others)


def copies_of(source: Int[np.ndarray, "B S"], known: int) -> Int[np.ndarray, "B S"]:
    """What each word is copied as: its id, or V + the place where it first stands.

    Args:
      source: open ids.
      known: V.
    """
    first = (source[:, :, None] == source[:, None, :]).argmax(axis=2)
    return np.where(source < known, source, known + first).astype(np.int32)


def copied(
    target: Int[np.ndarray, "B T"], source: Int[np.ndarray, "B S"], known: int
) -> Int[np.ndarray, "B T"]:
    """Targets whose unknown words are copied from the source, or are `UNK` if it lacks them too.

    Args:
      target, source: open ids.
      known: V.
    """
    same = target[:, :, None] == source[:, None, :]
    places = np.where(same.any(axis=2), known + same.argmax(axis=2), UNK)
    return np.where(target < known, target, places).astype(np.int32)


def copyable(
    words: Int[np.ndarray, "B S"],
    sources: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    targets: Sequence[Sequence[str]] = (),
) -> tuple[Copyable, Int[np.ndarray, "B S"]]:
    """A padded batch of sources that can be copied, and its targets, padded to the same length.

    Args:
      words: ids of the source vocabulary; there may be more rows than sentences.
      sources: the tokens of each sentence.
      vocabulary: that of the target.
      targets: the tokens of each target, if known.
    """
    rows, length = words.shape
    of_source: list[list[int]] = [[] for _ in range(rows)]
    of_target: list[list[int]] = [[] for _ in range(rows)]
    for row, source in enumerate(sources):
        others: dict[str, int] = {}
        of_source[row] = vocabulary.open_ids(source, others)
        if targets:
            of_target[row] = [*vocabulary.open_ids(targets[row], others), EOS]
    source, target, known = pad(of_source, length), pad(of_target, length), len(vocabulary)
    return Copyable(words, copies_of(source, known)), copied(target, source, known)
