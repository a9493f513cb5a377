"""Units of a sentence that links and weights connect: words, or the model's tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from attn_jax.alignment.readings import by_words
from attn_jax.data.sentences import Sentence, words_of
from attn_jax.errors import InputError
from attn_jax.tokens import BETWEEN, is_second
from attn_jax.translation.translator import Translator

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


def check_same_tokens(pairs: Pairs, reverse: Pairs) -> None:
    """Raises InputError if the run of the opposite direction splits a pair into other tokens.

    Args:
      pairs: sources and targets, as one run cuts them.
      reverse: targets and sources, as the other run cuts them.
    """
    for number, of_pair in enumerate(zip(*pairs, *reverse[::-1], strict=True), start=1):
        source, target, source_again, target_again = (sentence.tokens for sentence in of_pair)
        if (source, target) != (source_again, target_again):
            raise InputError(
                f"the two runs cut pair {number} into different tokens: combine links between "
                "words, without --unit=token"
            )
