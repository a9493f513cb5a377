"""Vocabularies of each level: from text to tokens and ids, and back."""

import abc
import base64
import itertools
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import sentencepiece

from attn_jax.config import Data
from attn_jax.data.pretokens import PRETOKENIZERS, pretokenizer
from attn_jax.data.sentences import SPACES, Sentence, words_of
from attn_jax.data.subword_model import SPACE, learn, without_null
from attn_jax.errors import InputError
from attn_jax.tokens import EOS, SPECIALS, UNK


class Vocabulary(abc.ABC):
    """Tokens and their ids, of which the first are those of `SPECIALS`."""

    pretokens = "words"  # what `pretokenizer` takes
    per_word = 1  # tokens of a word, roughly

    def __init__(self, tokens: Sequence[str]):
        # `<unk>`, which prepared text may have in place of rare words, is the special token. Other
        # tokens that look special, such as `<s>`, are ordinary ones.
        tokens = [token for token in tokens if token != SPECIALS[UNK]]
        self.tokens = [*SPECIALS, *tokens]
        self._ids = {token: index for index, token in enumerate(tokens, start=len(SPECIALS))}

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def first(self) -> "Vocabulary":
        """That of the first source."""
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of tokens of each source."""
        return (len(self),)

    @property
    def unknown_ids(self) -> list[int]:
        """The ids of unknown tokens, one for each source."""
        return [UNK]

    def first_tokens(self, sentence: Sentence) -> int:
        """How many tokens of a sentence are those of the first source, which come first."""
        return len(sentence.tokens)

    def tokens_of(self, pretokens: Sequence[str]) -> list[list[str]]:
        """The tokens of each pretoken."""
        return [[pretoken] for pretoken in pretokens]

    def sentence(self, text: str, pretokens: Sequence[str]) -> Sentence:
        """The sentence of a text that has been cut into pretokens."""
        tokens = self.tokens_of(pretokens)
        words = [number for number, of_word in enumerate(tokens) for _ in of_word]
        return Sentence(text, list(chain.from_iterable(tokens)), words)

    def cut(self, text: str | Sentence) -> Sentence:
        """Cuts a text into tokens; a sentence that is cut already is returned as it is."""
        if isinstance(text, Sentence):
            return text
        return self.sentence(text, pretokenizer(self.pretokens)(text))

    def cut_at(self, place: str, text: str | Sentence) -> Sentence:
        """The same, with the place of the text, such as `line 3`, in the message of an error."""
        try:
            return self.cut(text)
        except InputError as error:
            raise InputError(f"{place}: {error}") from error

    @abc.abstractmethod
    def join(self, tokens: Sequence[str]) -> str:
        """Joins tokens into a text."""

    def words(self, text: str) -> list[str]:
        """The words of a text, as counted by word error rates."""
        return words_of(text)

    def encode(self, text: str | Sentence) -> list[int]:
        """The ids of a text, `UNK` for unknown tokens, without `BOS` and `EOS`."""
        return self.ids(self.cut(text).tokens)

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens, `UNK` for unknown ones."""
        return [self._ids.get(token, UNK) for token in tokens]

    def open_ids(self, tokens: Iterable[str], others: dict[str, int]) -> list[int]:
        """The ids of tokens, and numbers from V on for unknown ones, which `others` remembers.

        Args:
          tokens: of a text.
          others: the numbers of unknown tokens so far; new ones are added.
        """

        def number(token: str) -> int:
            return others.setdefault(token, len(self) + len(others))

        special = SPECIALS[UNK]
        return [
            self._ids[token] if token in self._ids else UNK if token == special else number(token)
            for token in tokens
        ]

    def unknown(self, sentences: Iterable[Sentence]) -> list[str]:
        """The unknown tokens of sentences, without duplicates."""
        tokens = dict.fromkeys(token for sentence in sentences for token in sentence.tokens)
        return [token for token in tokens if token not in self._ids]

    def decode(self, ids: Iterable[int], source: Sequence[str] = ()) -> list[str]:
        """The tokens of ids, up to the first `EOS`.

        Args:
          ids: of this vocabulary, of V tokens; or V + the place of a token that is copied.
          source: the tokens that may be copied.
        """
        known = len(self)
        written = itertools.takewhile(lambda index: index != EOS, ids)
        return [self.tokens[i] if i < known else source[i - known] for i in written]

    @classmethod
    def build(
        cls, counts: Mapping[str, int], sentences: Iterable[list[str]], config: Data
    ) -> "Vocabulary":
        """Builds the vocabulary of a training text, most frequent tokens first.

        Args:
          counts: how often each pretoken occurs in it.
          sentences: their pretokens, which only some vocabularies read, once.
          config: the options of the data.
        """
        return cls(sorted(counts, key=lambda token: (-counts[token], token)))

    def content(self) -> dict:
        """What `as_json` writes, besides the level."""
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

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def words(self, text: str) -> list[str]:
        """The whole sequence as a single word, which the symbols spell."""
        return [" ".join(words_of(text))]


class Tags(Symbols):
    """Tags, such as those of a word form: separated by semicolons or spaces."""

    pretokens = "tags"
    per_word = 1

    def sentence(self, text: str, pretokens: Sequence[str]) -> Sentence:
        of_words = (PRETOKENIZERS[self.pretokens](word) for word in words_of(text))
        words = [number for number, tags in enumerate(of_words) for _ in tags]
        return Sentence(text, list(pretokens), words)

    def join(self, tokens: Sequence[str]) -> str:
        return ";".join(tokens)


class Words(Vocabulary):
    """Words separated by spaces; rare ones are unknown."""

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    @classmethod
    def build(
        cls, counts: Mapping[str, int], sentences: Iterable[list[str]], config: Data
    ) -> Vocabulary:
        kept = [word for word, count in counts.items() if count >= config.min_count]
        kept = [word for word in kept if word != SPECIALS[UNK]]  # takes no place among the known
        if not kept:
            raise InputError(
                f"the vocabulary is empty: no word occurs {config.min_count} times in the "
                "training text; lower data.min_count, or use the subword or character level"
            )
        ordered = sorted(kept, key=lambda word: (-counts[word], word))
        return cls(ordered[: config.words or None])


class Characters(Vocabulary):
    """Single characters, spaces included."""

    pretokens = "characters"
    per_word = 6

    def sentence(self, text: str, pretokens: Sequence[str]) -> Sentence:
        inside = [character not in SPACES for character in pretokens]
        words = _counted(b and not a for a, b in pairwise([False, *inside]))
        return Sentence(text, list(pretokens), words)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class Subwords(Vocabulary):
    """SentencePiece's unigram model. Kudo 2018; Kudo and Richardson 2018."""

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = range(len(SPECIALS), self._processor.get_piece_size())
        super().__init__([self._processor.id_to_piece(piece) for piece in pieces])

    def tokens_of(self, pretokens: Sequence[str]) -> list[list[str]]:
        # Word by word: the pieces are those of the whole text, since none crosses a space, but in
        # the whole text the words could not be counted after normalisation, which may add spaces.
        return self._processor.encode(list(map(without_null, pretokens)), out_type=str)

    def words(self, text: str) -> list[str]:
        # Normalised as the model's own text is, in which no-break spaces have become spaces.
        return words_of(self._processor.normalize(text).replace(SPACE, " "))

    def join(self, tokens: Sequence[str]) -> str:
        return self._processor.decode_pieces(list(tokens))

    @classmethod
    def build(
        cls, counts: Mapping[str, int], sentences: Iterable[list[str]], config: Data
    ) -> Vocabulary:
        return cls(learn(counts, sentences, config))

    def content(self) -> dict:
        return {"model": base64.b64encode(self._model).decode()}

    @classmethod
    def from_content(cls, content: dict) -> Vocabulary:
        return cls(base64.b64decode(content["model"]))


def known(vocabulary: Vocabulary) -> int:
    """How many tokens of text a vocabulary knows."""
    return len(vocabulary) - len(SPECIALS) * len(vocabulary.sizes)


LEVELS: dict[str, type[Vocabulary]] = {
    "word": Words,
    "character": Characters,
    "symbol": Symbols,
    "subword": Subwords,
    "tag": Tags,
}


def copies(source: Vocabulary, target: Vocabulary, sentence: Sentence) -> list[str]:
    """The replacement that each token of a first source offers for an unknown target token.

    If target tokens are words, this is the source word that contains the token, else the token.
    """
    tokens = sentence.tokens[: source.first_tokens(sentence)]
    if isinstance(target, Words):
        # A text in characters may be all spaces.
        words = words_of(sentence.text) or [sentence.text]
        return [words[number] for number, _ in zip(sentence.words, tokens, strict=False)]
    return [source.first.join([token]) for token in tokens]
