"""Two texts of one sentence, such as a lemma and its tags, as one text with a tab between them."""

from collections.abc import Iterable

from attn_jax.errors import InputError
from attn_jax.tokens import BETWEEN


def joined(first: str, second: str) -> str:
    """Two texts as one."""
    return f"{first}{BETWEEN}{second.replace(BETWEEN, ' ')}"


def parted(text: str) -> tuple[str, str]:
    """The two texts of one; an empty text has two that are empty.

    Raises:
      InputError: there is no tab in it.
    """
    first, between, second = text.rpartition(BETWEEN)
    if text and not between:
        raise InputError(
            f"{text[:60]!r} is one source, and this model has two: write both with a tab between "
            "them"
        )
    return first, second


def marked(tokens: Iterable[str]) -> list[str]:
    """Tokens, or pretokens, of the second text, told from those of the first by a tab."""
    return [BETWEEN + token for token in tokens]
