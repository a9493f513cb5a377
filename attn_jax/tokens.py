"""The special tokens at the beginning of every vocabulary."""

PAD, UNK, BOS, EOS = range(4)  # ids of padding, unknown word, begin and end of sentence
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")

BETWEEN = "\t"  # between two sources in one text, and before each token of the second


def is_second(token: str) -> bool:
    """Whether a token is one of a second source."""
    return len(token) > 1 and token.startswith(BETWEEN)


def bracketed(token: str) -> str:
    """A token as people see it, in brackets if it is one of a second source."""
    return f"[{token.removeprefix(BETWEEN)}]" if is_second(token) else token
