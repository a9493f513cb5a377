"""Gold alignments with sure and possible links, in the formats in which they are published."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from attn_jax.data.pharaoh import Links, parse
from attn_jax.data.text_files import read_lines
from attn_jax.errors import InputError

NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.]+)?")


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
    golds = _read(path, len(sizes), first)
    if not any(gold.sure for gold in golds):
        raise InputError(f"{path} contains no sure link")
    for number, (gold, (sources, targets)) in enumerate(zip(golds, sizes, strict=True), start=1):
        for source, target in sorted(gold.possible):
            if source >= sources or target >= targets:
                raise InputError(
                    f"{path}, sentence {number}: the link {source}-{target} (from 0) is beyond the "
                    f"{sources} source and {targets} target words"
                )
    return golds


def _read(path: Path, sentences: int, first: int) -> list[Gold]:
    lines = read_lines(path)
    if lines and NAACL.fullmatch(lines[0].strip()):
        return _of_naacl(path, lines, sentences)
    if len(lines) != sentences:
        raise InputError(f"{path} has {len(lines)} lines, but there are {sentences} sentence pairs")
    return [
        _gold(_of_pharaoh(line, first, f"{path}, line {number}"))
        for number, line in enumerate(lines, start=1)
    ]


def _of_pharaoh(line: str, first: int, name: str) -> Iterable[tuple[int, int, bool]]:
    for source, sign, target in parse(line, name, "-?p", "0-0 (sure) or 1?2 (possible)"):
        if min(source, target) < first:
            link = f"{source}{sign}{target}"
            raise InputError(f"{name}: the link {link} is counted from 0, not from {first}")
        yield source - first, target - first, sign == "-"


def _of_naacl(path: Path, lines: list[str], sentences: int) -> list[Gold]:
    links: list[list[tuple[int, int, bool]]] = [[] for _ in range(sentences)]
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        link = NAACL.fullmatch(line.strip())
        if not link or not 1 <= int(link[1]) <= sentences:
            raise InputError(
                f"{path}, line {number}: expected the numbers of one of {sentences} sentences, of "
                f"a source and of a target word, from 1, then S or P, got {line[:60]!r}"
            )
        source, target = int(link[2]) - 1, int(link[3]) - 1
        if min(source, target) >= 0:
            links[int(link[1]) - 1].append((source, target, link[4] != "P"))
    return list(map(_gold, links))


def _gold(links: Iterable[tuple[int, int, bool]]) -> Gold:
    links = list(links)
    sure = frozenset((source, target) for source, target, certain in links if certain)
    return Gold(sure, sure | {(source, target) for source, target, _ in links})
