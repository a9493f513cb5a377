"""Pairs of texts and the weights between their tokens: of a run, or of a file of any toolkit."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from attn_jax.alignment.units import Pairs, Texts, cut
from attn_jax.data.sentences import Sentence
from attn_jax.data.text_checks import warn_of_unknown
from attn_jax.errors import InputError
from attn_jax.pairs import PathLike, Weighed, read_pairs, text_of, word_indices
from attn_jax.tokens import EOS, SPECIALS
from attn_jax.translation.translator import Translator

FILES = ".npz", ".json"


class System(Protocol):
    """What aligns pairs."""

    pairs: Pairs  # cut into tokens
    knows_ends: bool  # whether the last step of the weights is the end of the sentence

    def weights(self) -> list[np.ndarray]:
        """The weights of each pair, [L, N, T + 1, S]; the last step is the end of the sentence."""
        ...

    def aligned(self, of: str) -> list[np.ndarray]:
        """The `posterior` or the `viterbi` alignment of each pair, [T, S]."""
        ...

    def shown(self) -> list[Weighed]:
        """The pairs as they are drawn, with the weights of all heads."""
        ...

    def warn(self, name: str) -> None:
        """Warns of what it does not know; `name` begins the messages."""
        ...


class OfRun:
    """The model of a run."""

    knows_ends = True

    def __init__(self, translator: Translator, texts: Texts):
        self.translator, self.pairs = translator, cut(translator, texts)

    @functools.cached_property
    def _forced(self) -> list[np.ndarray]:
        """Computed once for links, scores, figures and the page."""
        return [np.asarray(pair.weights) for pair in self.translator.force(*self.pairs)]

    def weights(self) -> list[np.ndarray]:
        """The weights of each pair, [L, N, T + 1, S]; the last step is the end of the sentence."""
        return self._forced

    def aligned(self, of: str) -> list[np.ndarray]:
        """The `posterior` or the `viterbi` alignment of each pair, [T, S]."""
        return [of_pair[:-1] for of_pair in self.translator.align(*self.pairs, of=of)]

    def shown(self) -> list[Weighed]:
        """The pairs as they are drawn, with the weights of all heads."""
        return [
            Weighed(source.tokens, [*target.tokens, SPECIALS[EOS]], weights)
            for source, target, weights in zip(*self.pairs, self.weights(), strict=True)
        ]

    def warn(self, name: str) -> None:
        """Warns of unknown tokens."""
        sides = {"source": self.translator.source, "target": self.translator.target}
        for (side, vocabulary), sentences in zip(sides.items(), self.pairs, strict=True):
            warn_of_unknown(vocabulary, sentences, f"{name}, {side}: ")


class OfFile:
    """Weights of another toolkit.

    Tokens of no word are left out, and their share of a target token goes to its other weights.
    """

    knows_ends = False

    def __init__(self, path: PathLike):
        self.path, self._given = Path(path), read_pairs("", path)
        self._chosen = [
            tuple(_of_words(words) for _, words in _sides(pair)) for pair in self._given
        ]
        sources, targets = zip(
            *([_sentence(side, words) for side, words in _sides(pair)] for pair in self._given),
            strict=True,
        )
        self.pairs: Pairs = sources, targets

    def weights(self) -> list[np.ndarray]:
        """The weights of each pair, [L, N, T + 1, S], of which the last step is 0."""
        found = []
        for pair, (sources, targets) in zip(self._given, self._chosen, strict=True):
            rows = pair.weights[:, :, targets]
            kept = rows[..., sources]
            sums = kept.sum(axis=-1, keepdims=True)
            kept = kept * rows.sum(axis=-1, keepdims=True) / np.where(sums, sums, 1)
            found.append(np.pad(kept, [(0, 0), (0, 0), (0, 1), (0, 0)]))
        return found

    def aligned(self, of: str) -> list[np.ndarray]:
        """Raises InputError: a file has weights alone."""
        raise InputError(f"--of={of} needs the model of a run: {self.path} has weights alone")

    def shown(self) -> list[Weighed]:
        """The pairs as they are in the file."""
        return self._given

    def warn(self, name: str) -> None:
        """Nothing is known to be unknown."""


def _sides(pair: Weighed) -> list[tuple[Sequence[str], Sequence[int]]]:
    """The tokens of each side, and their words."""
    sides = (pair.source, pair.source_words), (pair.target, pair.target_words)
    return [(tokens, word_indices(tokens, words)) for tokens, words in sides]


def _of_words(words: Sequence[int]) -> list[int]:
    """The places of tokens that belong to a word."""
    return [place for place, word in enumerate(words) if word >= 0]


def _sentence(tokens: Sequence[str], words: Sequence[int]) -> Sentence:
    """The tokens of words as a sentence."""
    kept = _of_words(words)
    text = text_of(tokens, words)
    return Sentence(text, [tokens[place] for place in kept], [words[place] for place in kept])
