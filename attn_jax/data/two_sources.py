"""The vocabularies of two sources as one vocabulary, which all else can handle."""

from collections.abc import Iterable, Sequence

from attn_jax.data.sentences import Sentence, joined, marked, parted, words_of
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.tokens import BETWEEN, UNK, is_second


class TwoSources(Vocabulary):
    """Two vocabularies. A text holds both sources, with a tab between them.

    The tokens of the second source follow those of the first, each with a tab before it; their ids
    follow those of the first vocabulary.

    Args:
      first: of the first source.
      second: of the second source.
    """

    def __init__(self, first: Vocabulary, second: Vocabulary):
        self._first, self.second = first, second
        self.pretokens = BETWEEN.join([first.pretokens, second.pretokens])
        self.per_word = first.per_word
        self.tokens = [*first.tokens, *marked(second.tokens)]

    @property
    def first(self) -> Vocabulary:
        return self._first

    @property
    def sizes(self) -> tuple[int, ...]:
        return len(self.first), len(self.second)

    @property
    def unknown_ids(self) -> list[int]:
        return [UNK, len(self.first) + UNK]

    def tokens_of(self, pretokens: Sequence[str]) -> list[list[str]]:
        first, second = _apart(pretokens)
        of_first, of_second = iter(self.first.tokens_of(first)), iter(self.second.tokens_of(second))
        return [
            marked(next(of_second)) if is_second(pretoken) else next(of_first)
            for pretoken in pretokens
        ]

    def sentence(self, text: str, pretokens: Sequence[str]) -> Sentence:
        if not pretokens:  # also if there is a second text, beside an empty first one
            return Sentence(text, [], [])
        (first, second), (of_first, of_second) = parted(text), _apart(pretokens)
        one, other = self.first.sentence(first, of_first), self.second.sentence(second, of_second)
        before = len(words_of(first))
        words = [*one.words, *(before + number for number in other.words)]
        return Sentence(text, [*one.tokens, *marked(other.tokens)], words)

    def join(self, tokens: Sequence[str]) -> str:
        first, second = _apart(tokens)
        return joined(self.first.join(first), self.second.join(second))

    def words(self, text: str) -> list[str]:
        first, second = parted(text)
        return [*self.first.words(first), *self.second.words(second)]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        return [self._id(token) for token in tokens]

    def _id(self, token: str) -> int:
        if is_second(token):
            return len(self.first) + self.second.ids([token[len(BETWEEN) :]])[0]
        return self.first.ids([token])[0]

    def unknown(self, sentences: Iterable[Sentence]) -> list[str]:
        tokens = dict.fromkeys(token for sentence in sentences for token in sentence.tokens)
        return [token for token in tokens if self._id(token) in self.unknown_ids]

    def first_tokens(self, sentence: Sentence) -> int:
        return sum(not is_second(token) for token in sentence.tokens)


def _apart(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tokens, or pretokens, of each source."""
    first = [token for token in tokens if not is_second(token)]
    return first, [token[len(BETWEEN) :] for token in tokens if is_second(token)]
