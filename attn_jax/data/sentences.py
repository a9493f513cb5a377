"""A sentence that has been cut into tokens."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A text and its tokens, which a `Translator` takes wherever it takes text."""

    text: str
    tokens: list[str]
    words: Sequence[int]  # the index, from 0, of the word to which each token belongs
