"""Weights between units of sentences, which are words or the model's tokens."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from attn_jax.attention.head_names import head_name
from attn_jax.data.sentences import Sentence, words_of
from attn_jax.errors import InputError
from attn_jax.tokens import BETWEEN, is_second
from attn_jax.translation.translator import Translator


class Reading(NamedTuple):
    """Which of a model's weights are taken as its alignment."""

    head: tuple[int, int] | None = None  # layer and head, from 0; None: the mean over all
    shift: int = 0  # the weights of step t + shift are those of target token t

    def __str__(self) -> str:
        part = "mean of all heads"
        if self.head:
            part = head_name(self.head[0] + 1, self.head[1] + 1)
        return f"{part}, shift {self.shift:+d}"


def shifted(alignment: np.ndarray, shift: int) -> np.ndarray:
    """The weights [..., T - 1, S] of each target token; zeros where the shifted step is missing.

    A model that attends from the state before a token and one that attends from the state after it
    may differ by one step in which weights are those of the token.

    Args:
      alignment: weights [..., T, S], end of sentence included.
      shift: the weights of token t are those of step t + shift.
    """
    count = alignment.shape[-2]
    steps = np.arange(count - 1) + shift
    inside = (steps >= 0) & (steps < count)
    return np.where(inside[:, None], alignment[..., np.clip(steps, 0, count - 1), :], 0)


def readings(layers: int, heads: int, shifts: Sequence[int] = (0, 1, -1, 2)) -> list[Reading]:
    """All readings of the weights of `layers` layers and `heads` heads, simplest first."""
    parts = [None, *np.ndindex(layers, heads)] if layers * heads > 1 else [None]
    return [Reading(part, shift) for shift in shifts for part in parts]


def of_head(weights: np.ndarray, reading: Reading) -> np.ndarray:
    """The weights [T, S] of the head of a reading, or the mean over all, from [L, N, T, S]."""
    return weights.mean(axis=(0, 1)) if reading.head is None else weights[reading.head]


def read(weights: np.ndarray, reading: Reading) -> np.ndarray:
    """The weights [T - 1, S] of each target token, from those of all layers and heads.

    Args:
      weights: [L, N, T, S], end of sentence included.
      reading: which weights to take.
    """
    return shifted(of_head(weights, reading), reading.shift)


def by_words(
    weights: np.ndarray, source: Sequence[int], target: Sequence[int], sizes: tuple[int, int]
) -> np.ndarray:
    """Converts weights between tokens to weights between words.

    Weights are summed over the tokens of a source word, and averaged over those of a target word.

    Args:
      weights: [T, S].
      source, target: the index, from 0, of the word to which each token belongs.
      sizes: the numbers of source and target words.

    Returns:
      Weights [target words, source words].
    """
    into = np.zeros((weights.shape[1], sizes[0]))
    into[np.arange(len(source)), source] = 1
    rows = np.zeros((sizes[1], len(target)))
    rows[target, np.arange(len(target))] = 1
    return rows / np.maximum(rows.sum(axis=1, keepdims=True), 1) @ weights @ into


def masses(weights: Sequence[np.ndarray], reading: Reading) -> dict[str, float]:
    """Percentages of weight that do not contribute to links between words.

    Args:
      weights: of each sentence, [L, N, T, S], end of sentence included.
      reading: which weights are taken.

    Returns:
      `null_mass`, the mean weight of target words that is on no source word, and `end_mass`, the
      mean weight of the last step, which writes `EOS`, on the last source word.
    """
    alignments = [of_head(of_pair, reading) for of_pair in weights]
    of_words = [shifted(alignment, reading.shift) for alignment in alignments]
    nothing = np.concatenate([1 - rows.sum(axis=1) for rows in of_words])
    return {
        "null_mass": 100 * float(np.clip(nothing, 0, 1).mean()) if nothing.size else 0.0,
        "end_mass": 100 * float(np.mean([alignment[-1, -1] for alignment in alignments])),
    }


Texts = tuple[Sequence[str], Sequence[str]]  # sources and targets
Pairs = tuple[Sequence[Sentence], Sequence[Sentence]]  # the same, cut
Units = tuple[
    list[str], Sequence[int]
]  # the units of a sentence, and the index of each token's unit


def words(sentence: Sentence) -> Units:
    """The words of a sentence, those of a second source marked like its tokens."""
    places = sentence.words
    second = {
        place for token, place in zip(sentence.tokens, places, strict=True) if is_second(token)
    }
    found = enumerate(words_of(sentence.text))
    return [BETWEEN + word if place in second else word for place, word in found], places


def tokens(sentence: Sentence) -> Units:
    """The tokens of a sentence, each a unit of its own."""
    return sentence.tokens, list(range(len(sentence.tokens)))


UNITS: dict[str, Callable[[Sentence], Units]] = {"word": words, "token": tokens}


def cut(translator: Translator, texts: Texts) -> Pairs:
    """The sentences of pairs of text, as the vocabularies of a model cut them."""
    sources, targets = texts
    cut_sources = [
        translator.source.cut_at(f"source sentence {number}", source)
        for number, source in enumerate(sources, start=1)
    ]
    return cut_sources, list(map(translator.target.cut, targets))


def between(units: Callable, pairs: Pairs, weights: list) -> list[np.ndarray]:
    """Converts weights between the tokens of each pair to weights between its units."""
    converted = []
    for between_tokens, source, target in zip(weights, *pairs, strict=True):
        sources, source_of = units(source)
        targets, target_of = units(target)
        converted.append(
            by_words(between_tokens, source_of, target_of, (len(sources), len(targets)))
        )
    return converted


def check_same_units(pairs: Pairs, reverse: Pairs, unit: str) -> None:
    """Raises InputError if the two directions do not have the same units.

    Args:
      pairs: sources and targets, as one direction cuts them.
      reverse: targets and sources, as the other cuts them.
      unit: a name in `UNITS`.
    """
    if len(pairs[0]) != len(reverse[0]):
        raise InputError(
            f"the two directions have {len(pairs[0])} and {len(reverse[0])} pairs: give the same"
        )
    for number, of_pair in enumerate(zip(*pairs, *reverse[::-1], strict=True), start=1):
        source, target, source_again, target_again = (UNITS[unit](one)[0] for one in of_pair)
        if (source, target) != (source_again, target_again):
            rather = (
                ": combine links between words, without --unit=token" if unit == "token" else ""
            )
            raise InputError(f"the two directions cut pair {number} into different {unit}s{rather}")
