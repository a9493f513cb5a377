"""Special tokens, and batches of ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

PAD, UNK, BOS, EOS = range(4)  # ids of padding, unknown word, begin and end of sentence
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


class Batch(NamedTuple):
    """Sentence pairs as ids, padded with `PAD`: arrays of NumPy, and of JAX in a training step."""

    source: Any  # [B, S], or `Copyable`
    target: Any  # [B, T], each ending in `EOS`; the model puts `BOS` before them
    links: Any = None  # [B, T, S], as weights, where all pairs have some


class Copyable(NamedTuple):
    """Source sentences, with what it writes to copy each word, for a model that copies.

    A word that the target vocabulary of V words lacks is written as V + the place in its source
    where it first stands. Targets have such ids too.
    """

    words: Any  # [B, S], ids of the source vocabulary, padded with `PAD`
    copies: Any  # [B, S], ids of the target vocabulary, or V + a place

    @property
    def shape(self) -> tuple[int, int]:
        """B, S."""
        return self.words.shape


def ids_of(source: Any) -> Any:
    """The ids of source sentences, [B, S], which may be `Copyable`."""
    return source.words if isinstance(source, Copyable) else source


def written(tokens: Sequence[str], steps: int) -> list[str]:
    """The tokens of decoder steps: with the end of the sentence, unless they stopped before it."""
    return [*tokens, SPECIALS[EOS]][:steps]


BETWEEN = "\t"  # between two sources in one text, and before each token of the second


def is_second(token: str) -> bool:
    """Whether a token is one of a second source."""
    return len(token) > 1 and token.startswith(BETWEEN)


def bracketed(token: str) -> str:
    """A token as people see it, in brackets if it is one of a second source."""
    return f"[{token.removeprefix(BETWEEN)}]" if is_second(token) else token
