"""A user's parallel text: its files, its pairs, and exactly what is wrong with them."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain, islice, starmap, zip_longest
from pathlib import Path
from typing import NamedTuple, cast

from attn_jax.config import Data
from attn_jax.data.lines import OPEN, digest_of, iterate_lines
from attn_jax.data.sentences import Example, joined
from attn_jax.errors import InputError

AT_ONCE = 4096  # pairs whose digest is computed at a time
SPLITS = {"train": "train", "validation": "valid", "test": "test"}  # their options


class Known(NamedTuple):
    """What is known of a text that has been read."""

    pairs: int
    digest: str


class PairFile(Iterable[Example[str]]):
    """The pairs of a split, which are read when they are gone through.

    Those of training are read anew each time. Held-out text is kept in memory, so that it may
    change while a model is trained.

    Args:
      paths: one file of tab-separated columns, or one for each side.
      columns: those of the sides, where all are in one file.
      held_out: whether it is for validation or test, so that no side may be empty.
    """

    def __init__(self, paths: tuple[Path, ...], columns: tuple[int, ...] | None, held_out: bool):
        self._paths, self._columns, self._held_out = paths, columns, held_out
        self._known: Known | None = None

    @cached_property
    def _kept(self) -> list[tuple[str, str]]:
        return read_complete(self._paths, self._columns)

    def __iter__(self) -> Iterator[Example[str]]:
        """The pairs, one after another.

        Raises:
          InputError: a file cannot be used, or has changed since it was gone through before.
        """
        digest, count = hashlib.sha256(), 0
        pairs = iter(self._kept if self._held_out else read_pairs(self._paths, self._columns))
        while part := list(islice(pairs, AT_ONCE)):
            # Each side is one line, so that other sides never have the same digest.
            digest.update("\n".join([*chain.from_iterable(part), ""]).encode())
            count += len(part)
            yield from starmap(Example, part)
        known = Known(count, digest.hexdigest())
        if self._known not in (None, known):
            raise InputError(f"{self._paths[0]} has changed since it was read")
        self._known = known

    @property
    def known(self) -> Known:
        """What is known of the text, which is read if it has not been."""
        if self._known is None:
            for _ in self:
                pass
        return cast(Known, self._known)

    def __len__(self) -> int:
        return self.known.pairs


def pair_files(config: Data) -> dict[str, PairFile]:
    """The splits of the text that the options name; none is read yet.

    Raises:
      InputError: training or validation text is not given, a file is missing, or `config.columns`
        does not name two or three columns.
    """
    files, columns = {}, find_columns(config.columns)
    for split, option in SPLITS.items():
        prefix = getattr(config, option)
        if prefix:
            paths = find_sides(prefix, config.source, config.target, config.second_source)
            # Training leaves incomplete pairs out.
            files[split] = PairFile(paths, columns, held_out=split != "train")
        elif split != "test":
            raise InputError(
                f"data.name=parallel needs data.{option}: the prefix of two files, or a TSV"
            )
    return files


def content_of(files: Mapping[str, PairFile], links: str) -> str:
    """What identifies a text by its content, whatever its files are called.

    Raises:
      InputError: a file cannot be used.
    """
    digests = "".join(f"{split} {file.known.digest}\n" for split, file in files.items())
    of_links = f" {digest_of(Path(links))[:16]}" if links else ""
    return f"parallel/{hashlib.sha256(digests.encode()).hexdigest()[:16]}{of_links}"


def find_sides(prefix: str, source: str, target: str, second: str = "") -> tuple[Path, ...]:
    """The file or files of one split: (TSV,) or (source, target), perhaps with a second source.

    Raises:
      InputError: a file is missing, a suffix is missing, or one is given for a single file.
    """
    if Path(prefix).is_file():
        packed = Path(prefix).suffix if Path(prefix).suffix in OPEN else ""
        stem, _, suffix = prefix.removesuffix(packed).rpartition(".")
        if suffix and suffix in (source, target):
            raise InputError(f"{prefix} is one side of the text: give the prefix of both, {stem}")
        if source or target or second:
            raise InputError(
                f"{prefix} is one file with a source and a target column: leave out data.source, "
                "data.target and data.second_source, which are the suffixes of files"
            )
        return (Path(prefix),)
    if not source or not target:
        why = "is a folder" if Path(prefix).is_dir() else "does not exist"
        raise InputError(
            f"missing file: {prefix} {why}; if it is the prefix of two files, PREFIX.de and "
            "PREFIX.en, give the suffixes, such as data.source=de data.target=en"
        )
    return tuple(_existing(prefix, side) for side in (source, target, second) if side)


def _existing(prefix: str, side: str) -> Path:
    for packed in ("", *OPEN):
        path = Path(f"{prefix}.{side}{packed}")
        if path.is_file():
            return path
    raise InputError(
        f"missing file: {prefix}.{side} does not exist, nor does it with {', '.join(OPEN)}"
    )


def find_columns(text: str) -> tuple[int, ...] | None:
    """The columns, from 0, of a text such as `1,2`, which counts from 1; None for an empty text.

    They are those of the source, of the target and perhaps of a second source.

    Raises:
      InputError: the text is not of this form, or names one column twice.
    """
    if not text:
        return None
    named = text.replace(" ", "").split(",")
    numbers = all(re.fullmatch(r"[1-9][0-9]{0,5}", number) for number in named)
    if not numbers or len(named) not in (2, 3) or len({*named}) < len(named):
        raise InputError(
            "data.columns must be the numbers of the source and the target column, and perhaps of "
            f"a second source, from 1, as in 1,2 or 1,2,3, got {text!r}"
        )
    return tuple(int(number) - 1 for number in named)


def read_pairs(
    paths: tuple[Path, ...], columns: tuple[int, ...] | None = None
) -> Iterator[tuple[str, str]]:
    """The sentence pairs of one split, one after another; a side of a pair may be empty.

    Two sources are one text with a tab between them; it is empty where the first is.

    Args:
      paths: one file of tab-separated columns, or the files of source, target and perhaps a second
        source.
      columns: those of the same, from 0; when None, there must be only source and target.

    Raises:
      InputError: a file cannot be read, a line does not have these columns, or the sides have
        different numbers of lines.
    """
    lines = _read_columns(paths[0], columns) if len(paths) == 1 else _read_beside(paths)
    for source, target, *second in lines:
        if second:
            source = joined(source, *second) if source.strip() else ""
        yield source, target


def _read_beside(paths: tuple[Path, ...]) -> Iterator[tuple[str, ...]]:
    """Lines of the same number."""
    files = list(map(iterate_lines, paths))
    for read, together in enumerate(zip_longest(*files)):
        if None in together:
            counts = [
                read if line is None else read + 1 + sum(1 for _ in file)
                for line, file in zip(together, files, strict=True)
            ]
            least = counts.index(read)
            most = counts.index(max(counts))
            first, other = sorted((least, most))
            raise InputError(
                f"{paths[first]} has {counts[first]} lines, but {paths[other]} has "
                f"{counts[other]}: line n of one side must translate line n of the other"
            )
        yield together


def _read_columns(path: Path, columns: tuple[int, ...] | None) -> Iterator[list[str]]:
    wanted = columns or (0, 1)
    last = max(wanted)
    for number, line in enumerate(iterate_lines(path), start=1):
        cells = line.split("\t") if line.strip() else [""] * (last + 1)
        if columns is None and len(cells) != 2:
            hint = "; name those of source and target, as in data.columns=1,2"
            raise InputError(
                f"{path}, line {number}: expected two columns with one tab between them, got "
                f"{len(cells)}{hint if len(cells) > 2 else ''}"
            )
        if last >= len(cells):
            raise InputError(
                f"{path}, line {number}: there is no column {last + 1} of data.columns, but only "
                f"{len(cells)}"
            )
        yield [cells[column] for column in wanted]


def read_complete(
    paths: tuple[Path, ...], columns: tuple[int, ...] | None = None
) -> list[tuple[str, str]]:
    """The sentence pairs of a text that is decoded, no side of which may be empty.

    Arguments are those of `read_pairs`.

    Raises:
      InputError: as for `read_pairs`, or a sentence is empty; the message then gives the first
        line and their number.
    """
    pairs = list(read_pairs(paths, columns))
    empty = [
        f"{paths[side % len(paths)]}, line {number}"
        for number, pair in enumerate(pairs, start=1)
        for side, sentence in enumerate(pair)
        if not sentence.strip()
    ]
    if empty:
        others = f"; {len(empty) - 1} more sentences are empty" if len(empty) > 1 else ""
        raise InputError(f"{empty[0]}: the sentence is empty{others}")
    return pairs
