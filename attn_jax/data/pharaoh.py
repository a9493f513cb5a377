"""Links between words in the Pharaoh format, a line such as `0-0 2-1` for each sentence pair."""

import re
from collections.abc import Iterator, Set
from pathlib import Path

from attn_jax.data.text_files import read_lines
from attn_jax.errors import InputError

Links = Set[tuple[int, int]]  # positions (source, target), counted from 0


def read_pharaoh(path: Path) -> list[Links]:
    """Reads the links of each sentence pair; a line may be empty.

    Raises:
      InputError: the file cannot be read, or a line has another format (the message gives its
        number).
    """
    return [
        {(source, target) for source, _, target in parse(line, f"{path}, line {number}")}
        for number, line in enumerate(read_lines(path), start=1)
    ]


def parse(
    line: str, name: str, signs: str = "-", such: str = "0-0 2-1"
) -> Iterator[tuple[int, str, int]]:
    """The source, sign and target of each link of a line.

    Args:
      line: the line.
      name: of the line, for error messages.
      signs: those that may stand between source and target.
      such: links as they should be, for error messages.

    Raises:
      InputError: a word of the line is not such a link.
    """
    for word in line.split():
        link = re.fullmatch(rf"(\d+)([{signs}])(\d+)", word)
        if not link:
            raise InputError(f"{name}: expected links such as {such}, got {word[:60]!r}")
        yield int(link[1]), link[2], int(link[3])


def pharaoh(links: Links) -> str:
    """Links (source, target) as a line, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
