"""Long labels, wrapped to the available width."""

import re
import textwrap
from collections.abc import Iterable

INSIDE = re.compile(r"(?<=[=:,])|(?=\()")  # where a long word of options may be split


def wrapped(label: str, signs: int = 32) -> str:
    """Wraps a label to lines of at most `signs` characters; only longer words are split."""
    words = [
        part
        for word in label.split()
        for part in ([word] if len(word) <= signs else _parts(word, signs))
    ]
    return "\n".join(_packed(words, " ", signs))


def _parts(word: str, signs: int) -> list[str]:
    """Splits a long word at options and settings, and anywhere if these are too long as well."""
    pieces = (piece for part in INSIDE.split(word) for piece in textwrap.wrap(part, signs))
    return _packed(pieces, "", signs)


def _packed(pieces: Iterable[str], between: str, signs: int) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(between) + len(piece) <= signs:
            lines[-1] += between + piece
        else:
            lines.append(piece)
    return lines
