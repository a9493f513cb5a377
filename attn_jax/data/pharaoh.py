"""Links between words in the Pharaoh format, a line such as `0-0 2-1` for each sentence pair."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path

from attn_jax.data.lines import iterate_lines
from attn_jax.data.sentences import words_of
from attn_jax.errors import InputError

POSITION = "0*([0-9]{1,9})"  # Python refuses to convert texts of thousands of digits
Links = Set[tuple[int, int]]  # positions (source, target), counted from 0


def iterate_pharaoh(path: Path) -> Iterator[Links]:
    """The links of each sentence pair, one after another; a line may be empty.

    Raises:
      InputError: the file cannot be read, or a line has another format (the message gives its
        number).
    """
    for number, line in enumerate(iterate_lines(path), start=1):
        yield {(source, target) for source, _, target in parse(line, f"{path}, line {number}")}


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
    for word in words_of(line):
        link = re.fullmatch(rf"{POSITION}([{signs}]){POSITION}", word)
        if not link:
            raise InputError(f"{name}: expected links such as {such}, got {word[:60]!r}")
        yield int(link[1]), link[2], int(link[3])


def check_links(
    links: Iterable[Links], sizes: Sequence[tuple[int, int]], name: str, from_one: str = ""
) -> None:
    """Checks that links are within their sentences; warns if they seem to be counted from 1.

    Args:
      links: of each sentence pair, counted from 0.
      sizes: the numbers of source and target words of each pair.
      name: of the file, for messages.
      from_one: what to do if the file counts from 1; empty where that cannot be.

    Raises:
      InputError: a link is beyond the words of its sentence. The message tells if all links would
        fit when counted from 1, or from target to source.
    """
    may_be_from_one = from_one and min(map(min, chain.from_iterable(links)), default=0) > 0
    beyond = next(_beyond(links, sizes), None)
    if beyond:
        number, (source, target), (sources, targets) = beyond
        exchanged = [size[::-1] for size in sizes]
        ways = {"source and target are exchanged": _beyond(links, exchanged)}
        if may_be_from_one:
            first = f"links are counted from 1: {from_one}"
            ways = {
                first: _beyond(links, sizes, 1),
                **ways,
                f"source and target are exchanged, and {first}": _beyond(links, exchanged, 1),
            }
        fitting = next((way for way, wrong in ways.items() if not any(wrong)), "")
        raise InputError(
            f"{name}, sentence {number}: the link {source}-{target} (from 0) is beyond the "
            f"{sources} source and {targets} target words{fitting and '; the file fits if '}"
            f"{fitting}"
        )
    if may_be_from_one:
        warnings.warn(
            f"{name} has no link of a first word; if its links are counted from 1: {from_one}",
            stacklevel=2,
        )


def _beyond(
    links: Iterable[Links], sizes: Sequence[tuple[int, int]], first: int = 0
) -> Iterator[tuple[int, tuple[int, int], tuple[int, int]]]:
    """The sentence (from 1), link, and sizes of each link beyond the words of its sentence."""
    for number, (of_pair, size) in enumerate(zip(links, sizes, strict=True), start=1):
        for source, target in sorted(of_pair):
            if source - first >= size[0] or target - first >= size[1]:
                yield number, (source, target), size


def pharaoh(links: Links) -> str:
    """Links (source, target) as a line, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
