"""Links between words in files: in the Pharaoh format, and sure and possible ones of annotators.

A line such as `0-0 2-1` in the Pharaoh format has the links of a sentence pair.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from attn_jax.data.lines import iterate_lines, read_lines
from attn_jax.data.sentences import words_of
from attn_jax.errors import InputError

POSITION = "0*([0-9]{1,9})"  # Python refuses to convert texts of thousands of digits
NAACL = re.compile(rf"{POSITION} {POSITION} {POSITION}(?: ([SP]))?(?: [0-9.]+)?")
Links = Set[tuple[int, int]]  # positions (source, target), counted from 0


def iterate_pharaoh(path: Path) -> Iterator[Links]:
    """The links of each sentence pair, one after another; a line may be empty.

    Raises:
      InputError: the file cannot be read, or a line has another format (the message gives its
        number).
    """
    for number, line in enumerate(iterate_lines(path), start=1):
        yield {(source, target) for source, _, target in _parse(line, f"{path}, line {number}")}


def _parse(
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
        exchanged = [(after, before) for before, after in sizes]
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


class Gold(NamedTuple):
    """The links of one sentence pair, (source, target) counted from 0."""

    sure: Links
    possible: Links  # the sure ones included


def read_gold(path: Path, sizes: Sequence[tuple[int, int]], first: int = 0) -> list[Gold]:
    """Reads the gold links of each sentence pair. Och and Ney 2003, section 5.2.

    The format is recognised by the first line. Pharaoh: a line for each pair, `0-0` for a sure
    link, `1?2` or `1p2` for a possible one. Shared tasks (NAACL 2003): a line for each link,
    `sentence source target`, all counted from 1, optionally followed by `S` or `P` and by a
    confidence, which is ignored; a link without `S` or `P` is sure. In this format position 0 is
    the empty word, and its links are ignored.

    Args:
      path: the file.
      sizes: the numbers of source and target words of each pair.
      first: the number of the first word in the Pharaoh format, 0 or 1.

    Raises:
      InputError: the file cannot be read, has another format or number of lines, has no sure
        link, or a link is beyond the words of its sentence.
    """
    lines = read_lines(path)
    if NAACL.fullmatch(" ".join(words_of(lines[0]))):
        golds, from_one = _of_naacl(path, lines, len(sizes)), ""
    else:
        golds = _of_pharaoh(path, lines, len(sizes), first)
        from_one = "" if first else "give gold_first=1"
    if not any(gold.sure for gold in golds):
        raise InputError(f"{path} contains no sure link")
    check_links([gold.possible for gold in golds], sizes, str(path), from_one)
    return golds


def _of_pharaoh(path: Path, lines: list[str], sentences: int, first: int) -> list[Gold]:
    if len(lines) != sentences:
        raise InputError(f"{path} has {len(lines)} lines, but there are {sentences} sentence pairs")
    return [
        _gold(_of_line(line, first, f"{path}, line {number}"))
        for number, line in enumerate(lines, start=1)
    ]


def _of_line(line: str, first: int, name: str) -> Iterable[tuple[int, int, bool]]:
    for source, sign, target in _parse(line, name, "-?p", "0-0 (sure) or 1?2 (possible)"):
        if min(source, target) < first:
            link = f"{source}{sign}{target}"
            raise InputError(
                f"{name}: the link {link} is counted from 0: give gold_first=0, and "
                "number all gold files alike"
            )
        yield source - first, target - first, sign == "-"


def _of_naacl(path: Path, lines: list[str], sentences: int) -> list[Gold]:
    links: list[list[tuple[int, int, bool]]] = [[] for _ in range(sentences)]
    for number, line in enumerate(lines, start=1):
        words = words_of(line)
        if not words:
            continue
        link = NAACL.fullmatch(" ".join(words))
        if not link or not 1 <= int(link[1]) <= sentences:
            raise InputError(
                f"{path}, line {number}: expected the numbers of one of {sentences} sentences, of "
                f"a source and of a target word, from 1, then S or P, got {line[:60]!r}"
            )
        source, target = int(link[2]) - 1, int(link[3]) - 1
        if max(source, target) < 0:
            raise InputError(
                f"{path}, line {number}: a link 0 0 connects nothing, since this format counts "
                "words from 1"
            )
        if min(source, target) >= 0:
            links[int(link[1]) - 1].append((source, target, link[4] != "P"))
    return list(map(_gold, links))


def _gold(links: Iterable[tuple[int, int, bool]]) -> Gold:
    links = list(links)
    sure = frozenset((source, target) for source, target, certain in links if certain)
    return Gold(sure, sure | {(source, target) for source, target, _ in links})
