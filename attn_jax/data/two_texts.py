"""Two texts of one sentence, such as a lemma and its tags, as one text with a tab between them."""

from collections.abc import Iterable

from attn_jax.errors import InputError

BETWEEN = "\t"


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


def named(tokens: Iterable[str]) -> list[str]:
    """Tokens as they are shown, those of the second text in brackets."""
    return [f"[{token.removeprefix(BETWEEN)}]" if is_second(token) else token for token in tokens]


def is_second(token: str) -> bool:
    """Whether a token, or a pretoken, is one of the second text."""
    return len(token) > 1 and token.startswith(BETWEEN)
