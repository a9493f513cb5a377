"""Sentences and their pairs: as text, whose words are counted as other tools do, and cut."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from attn_jax.errors import InputError
from attn_jax.tokens import BETWEEN, PAD

SPACES = " \t"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A text and its tokens, which a `Translator` takes wherever it takes text."""

    text: str
    tokens: list[str]
    words: Sequence[int]  # the index, from 0, of the word to which each token belongs


Side = TypeVar("Side", str, Sentence)  # as text, or cut into tokens


class Example(NamedTuple, Generic[Side]):
    """One sentence pair; `alignment` is the source position of each target token, where known."""

    source: Side
    target: Side
    alignment: np.ndarray | None = None


def words_of(text: str) -> list[str]:
    """The words of a text, which are what stands between ASCII spaces and tabs.

    Aligners cut there. Python's `split` also cuts at no-break spaces and others, which would move
    the numbers of all later words.
    """
    return [word for word in text.replace("\t", " ").split(" ") if word]


def joined(first: str, second: str) -> str:
    """Two texts of one sentence, such as a lemma and its tags, as one with a tab between them."""
    return f"{first}{BETWEEN}{second.replace(BETWEEN, ' ')}"


def parted(text: str) -> tuple[str, str]:
    """The two texts of one; an empty text has two that are empty.

    Raises:
      InputError: there is no tab in it.
    """
    first, between, second = text.rpartition(BETWEEN)
    if text and not between:
        raise InputError(
            f"{text[:60]!r} is one source, and this model has two: write both with a tab between "
            "them"
        )
    return first, second


def marked(tokens: Iterable[str]) -> list[str]:
    """Tokens, or pretokens, of the second text, told from those of the first by a tab."""
    return [BETWEEN + token for token in tokens]


def pad(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Rows of ids as one array [B, length], `PAD` on the right."""
    padded = np.full((len(rows), length), PAD, np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
