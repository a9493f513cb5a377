"""Long labels, shortened to the width that there is."""

import re
import textwrap
from collections.abc import Iterable

INSIDE = re.compile(r"(?<=[=:,])|(?=\()")  # where a word of options may be cut


def wrapped(label: str, signs: int = 32) -> str:
    """A label in lines of at most so many signs, cut inside a word only where it is longer."""
    words = [
        part
        for word in label.split()
        for part in ([word] if len(word) <= signs else _parts(word, signs))
    ]
    return "\n".join(_packed(words, " ", signs))


def _parts(word: str, signs: int) -> list[str]:
    """A long word, cut at options and their settings, and anywhere where these are long too."""
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
