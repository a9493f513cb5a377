"""Vocabularies of each level: from text to tokens and ids, and back."""

import abc
import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise

import sentencepiece

from attn_jax.config import Data
from attn_jax.data.subword_model import SPACE, learn, without_null
from attn_jax.data.words import SPACES, words_of
from attn_jax.errors import InputError
from attn_jax.tokens import EOS, SPECIALS, UNK


class Vocabulary(abc.ABC):
    """Tokens and their ids, of which the first are those of `SPECIALS`."""

    per_word = 1  # tokens of a word, roughly

    def __init__(self, tokens: Sequence[str]):
        # `<unk>`, which prepared text may have in place of rare words, is the special token. Other
        # tokens that look special, such as `<s>`, are ordinary ones.
        tokens = [token for token in tokens if token != SPECIALS[UNK]]
        self.tokens = [*SPECIALS, *tokens]
        self._ids = {token: index for index, token in enumerate(tokens, start=len(SPECIALS))}

    def __len__(self) -> int:
        return len(self.tokens)

    @abc.abstractmethod
    def split(self, text: str) -> list[str]:
        """Splits a text into tokens."""

    @abc.abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Joins tokens into a text."""

    def words(self, text: str) -> list[str]:
        """The words of a text, as counted by word error rates."""
        return words_of(text)

    def word_indices(self, text: str) -> list[int]:
        """The index, from 0, of the word to which each token of a text belongs."""
        return list(range(len(self.split(text))))

    def encode(self, text: str) -> list[int]:
        """The ids of a text, `UNK` for unknown tokens, without `BOS` and `EOS`."""
        return self.ids(self.split(text))

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, `UNK` for unknown ones."""
        return [self._ids.get(token, UNK) for token in tokens]

    def unknown(self, texts: Iterable[str]) -> list[str]:
        """The unknown tokens of texts, without duplicates."""
        tokens = dict.fromkeys(token for text in texts for token in self.split(text))
        return [token for token in tokens if token not in self._ids]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The tokens of ids, up to the first `EOS`."""
        tokens = []
        for index in ids:
            if index == EOS:
                break
            tokens.append(self.tokens[index])
        return tokens

    @classmethod
    def build(cls, texts: Sequence[str], config: Data) -> "Vocabulary":
        """Builds the vocabulary of a training text, most frequent tokens first."""
        split = cls([]).split
        counts = Counter(token for text in texts for token in split(text))
        return cls(sorted(counts, key=lambda token: (-counts[token], token)))

    def content(self) -> dict:
        """What `save_vocabulary` writes, besides the level."""
        return {"tokens": self.tokens[len(SPECIALS) :]}

    @classmethod
    def from_content(cls, content: dict) -> "Vocabulary":
        """The vocabulary that has this `content`."""
        return cls(content["tokens"])


def _counted(begins: Iterable[bool]) -> list[int]:
    """The word index of each token, given whether the token begins a word."""
    return [max(count - 1, 0) for count in accumulate(begins)]


class Symbols(Vocabulary):
    """Tokens separated by spaces; all those of the training text are known."""

    per_word = 6

    def split(self, text: str) -> list[str]:
        return words_of(text)

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def words(self, text: str) -> list[str]:
        """The whole sequence as a single word, which the symbols spell."""
        return [" ".join(words_of(text))]


class Words(Vocabulary):
    """Words separated by spaces; rare ones are unknown."""

    def split(self, text: str) -> list[str]:
        return words_of(text)

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    @classmethod
    def build(cls, texts: Sequence[str], config: Data) -> Vocabulary:
        counts = Counter(word for text in texts for word in words_of(text))
        del counts[SPECIALS[UNK]]  # takes no place among the known words
        kept = [word for word, count in counts.items() if count >= config.min_count]
        if not kept:
            raise InputError(
                f"the vocabulary is empty: no word occurs {config.min_count} times in the "
                "training text; lower --data.min_count, or use the subword or character level"
            )
        ordered = sorted(kept, key=lambda word: (-counts[word], word))
        return cls(ordered[: config.words or None])


class Characters(Vocabulary):
    """Single characters, spaces included."""

    per_word = 6

    def split(self, text: str) -> list[str]:
        return list(text)

    def word_indices(self, text: str) -> list[int]:
        inside = [character not in SPACES for character in text]
        return _counted(b and not a for a, b in pairwise([False, *inside]))

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class Subwords(Vocabulary):
    """SentencePiece's unigram model. Kudo 2018; Kudo and Richardson 2018."""

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = range(len(SPECIALS), self._processor.get_piece_size())
        super().__init__([self._processor.id_to_piece(piece) for piece in pieces])

    def _pieces(self, text: str) -> list[list[str]]:
        # Word by word: the pieces are those of the whole text, since none crosses a space, but in
        # the whole text the words could not be counted after normalisation, which may add spaces.
        words = map(without_null, words_of(text))
        return self._processor.encode(list(words), out_type=str)

    def split(self, text: str) -> list[str]:
        return list(chain.from_iterable(self._pieces(text)))

    def words(self, text: str) -> list[str]:
        # Normalised as the model's own text is, in which no-break spaces have become spaces.
        return words_of(self._processor.normalize(text).replace(SPACE, " "))

    def word_indices(self, text: str) -> list[int]:
        return [number for number, pieces in enumerate(self._pieces(text)) for _ in pieces]

    def join(self, tokens: Sequence[str]) -> str:
        return self._processor.decode_pieces(list(tokens))

    @classmethod
    def build(cls, texts: Sequence[str], config: Data) -> Vocabulary:
        return cls(learn(texts, config))

    def content(self) -> dict:
        return {"model": base64.b64encode(self._model).decode()}

    @classmethod
    def from_content(cls, content: dict) -> Vocabulary:
        return cls(base64.b64decode(content["model"]))


LEVELS: dict[str, type[Vocabulary]] = {
    "word": Words,
    "character": Characters,
    "symbol": Symbols,
    "subword": Subwords,
}


def copies(source: Vocabulary, target: Vocabulary, text: str) -> list[str]:
    """The replacement that each token of a source text offers for an unknown target token.

    If target tokens are words, this is the source word that contains the token, else the token.
    """
    if isinstance(target, Words):
        words = words_of(text) or [text]  # a text in characters may be all spaces
        return [words[number] for number in source.word_indices(text)]
    return [source.join([token]) for token in source.split(text)]
