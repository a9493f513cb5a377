"""Gold alignments with sure and possible links, in the formats in which they are published."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from attn_jax.data.lines import read_lines
from attn_jax.data.pharaoh import POSITION, Links, check_links, parse
from attn_jax.data.sentences import words_of
from attn_jax.errors import InputError

NAACL = re.compile(rf"{POSITION} {POSITION} {POSITION}(?: ([SP]))?(?: [0-9.]+)?")


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
    for source, sign, target in parse(line, name, "-?p", "0-0 (sure) or 1?2 (possible)"):
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
