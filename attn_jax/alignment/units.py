"""Units of a sentence that links and weights connect: words, or the model's tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from attn_jax.alignment.readings import by_words
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.data.words import words_of
from attn_jax.errors import InputError
from attn_jax.translator import Translator

Pairs = tuple[Sequence[str], Sequence[str]]  # sources and targets
Units = tuple[list[str], list[int]]  # the units of a sentence, and the index of each token's unit


def words(vocabulary: Vocabulary, sentence: str) -> Units:
    """The words of a sentence."""
    return words_of(sentence), vocabulary.word_indices(sentence)


def tokens(vocabulary: Vocabulary, sentence: str) -> Units:
    """The tokens of a sentence, each a unit of its own."""
    split = vocabulary.split(sentence)
    return split, list(range(len(split)))


UNITS: dict[str, Callable[[Vocabulary, str], Units]] = {"word": words, "token": tokens}


def between(
    units: Callable, translator: Translator, pairs: Pairs, weights: list
) -> list[np.ndarray]:
    """Converts weights between the tokens of each pair to weights between its units."""
    converted = []
    for between_tokens, source, target in zip(weights, *pairs, strict=True):
        sources, source_of = units(translator.source, source)
        targets, target_of = units(translator.target, target)
        converted.append(
            by_words(between_tokens, source_of, target_of, (len(sources), len(targets)))
        )
    return converted


def check_same_tokens(translator: Translator, reverse: Translator, pairs: Pairs) -> None:
    """Raises InputError if the run of the opposite direction splits a pair into other tokens."""
    for number, (source, target) in enumerate(zip(*pairs, strict=True), start=1):
        ours = translator.source.split(source), translator.target.split(target)
        if ours != (reverse.target.split(source), reverse.source.split(target)):
            raise InputError(
                f"the two runs cut pair {number} into different tokens: combine links between "
                "words, without --unit=token"
            )
