"""Links between words in the Pharaoh format, a line such as `0-0 2-1` for each sentence pair."""

import re
from collections.abc import Iterable, Iterator

from attn_jax.errors import InputError


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


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """Links (source, target) as a line, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
