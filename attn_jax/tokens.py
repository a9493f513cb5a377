"""Special tokens, and batches of ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

PAD, UNK, BOS, EOS = range(4)  # ids of padding, unknown word, begin and end of sentence
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")


class Batch(NamedTuple):
    """Sentence pairs as ids, padded with `PAD`: arrays of NumPy, and of JAX in a training step."""

    source: Any  # [B, S]
    target: Any  # [B, T], each ending in `EOS`; the model puts `BOS` before them
    links: Any = None  # [B, T, S], as weights, where all pairs have some


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
