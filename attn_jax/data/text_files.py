"""Reads a user's parallel text, and says exactly what is wrong with it."""

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path

from attn_jax.data.compression import OPEN, damaged
from attn_jax.errors import InputError

MARK = b"\xef\xbb\xbf"  # of byte order, which some programs put before UTF-8 text


def _plain(path: Path) -> BufferedIOBase:
    return path.open("rb")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """Opens a file, to be decompressed while it is read if its suffix is one of `OPEN`."""
    try:
        with OPEN.get(path.suffix, _plain)(path) as file:
            yield file
    except InputError:
        raise
    except damaged() as error:
        # `strerror` is the system's message without the path, which is already given.
        raise InputError(
            f"cannot read {path}: {getattr(error, 'strerror', '') or error}"
        ) from error


def read_data(path: Path) -> bytes:
    """The content of a file, decompressed if its suffix is one of `OPEN`.

    Raises:
      InputError: the file cannot be read.
    """
    with _opened(path) as file:
        return file.read()


def digest_of(path: Path) -> str:
    """The SHA-256 of the content of a file, decompressed if its suffix is one of `OPEN`.

    Raises:
      InputError: the file cannot be read.
    """
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def iterate_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or compressed, one after another.

    Raises:
      InputError: the file cannot be read or is empty, or a line is not UTF-8 (the message gives its
        number).
    """
    empty = True
    with _opened(path) as file:
        for line in text_lines(file, str(path)):
            empty = False
            yield line
    if empty:
        raise InputError(f"{path} is empty")


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of bytes without a byte order mark, which does not make a line by itself."""
    lines = iter(lines)
    first = next(lines, b"").removeprefix(MARK)
    return itertools.chain([first] if first else [], lines)


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file; errors are those of `iterate_lines`."""
    return list(iterate_lines(path))


def text_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of UTF-8 text, without a byte order mark and ends of lines, one by one.

    Args:
      lines: the text, such as a binary file, which may still be written.
      name: the text's name in error messages.

    Raises:
      InputError: a line is not UTF-8 (the message gives its number).
    """
    for number, line in enumerate(_without_mark(lines), start=1):
        yield _decoded(name, number, line.removesuffix(b"\n"))


def _decoded(name: str, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}, line {number}: not UTF-8 ({error.reason})") from error


def find_sides(prefix: str, source: str, target: str) -> tuple[Path, ...]:
    """The file or files of one split: (TSV,) or (source side, target side).

    Raises:
      InputError: a file is missing, a suffix is missing, or one is given for a single file.
    """
    if Path(prefix).is_file():
        packed = Path(prefix).suffix if Path(prefix).suffix in OPEN else ""
        stem, _, suffix = prefix.removesuffix(packed).rpartition(".")
        if suffix and suffix in (source, target):
            raise InputError(f"{prefix} is one side of the text: give the prefix of both, {stem}")
        if source or target:
            raise InputError(
                f"{prefix} is one file with a source and a target column: leave out data.source "
                "and data.target, which are the suffixes of two files"
            )
        return (Path(prefix),)
    if not source or not target:
        why = "is a folder" if Path(prefix).is_dir() else "does not exist"
        raise InputError(
            f"missing file: {prefix} {why}; if it is the prefix of two files, PREFIX.de and "
            "PREFIX.en, give the suffixes, such as data.source=de data.target=en"
        )
    return tuple(_existing(prefix, side) for side in (source, target))


def _existing(prefix: str, side: str) -> Path:
    for packed in ("", *OPEN):
        path = Path(f"{prefix}.{side}{packed}")
        if path.is_file():
            return path
    raise InputError(
        f"missing file: {prefix}.{side} does not exist, nor does it with {', '.join(OPEN)}"
    )


def find_columns(text: str) -> tuple[int, int] | None:
    """The columns, from 0, of a text such as `1,2`, which counts from 1; None for an empty text.

    Raises:
      InputError: the text is not of this form, or names one column twice.
    """
    if not text:
        return None
    named = re.fullmatch(r"([1-9][0-9]{0,5}),([1-9][0-9]{0,5})", text.replace(" ", ""))
    if not named or named[1] == named[2]:
        raise InputError(
            "data.columns must be the numbers of the source and the target column, from 1, as "
            f"in 1,2, got {text!r}"
        )
    return int(named[1]) - 1, int(named[2]) - 1


def read_pairs(
    paths: tuple[Path, ...], columns: tuple[int, int] | None = None
) -> Iterator[tuple[str, str]]:
    """The sentence pairs of one split, one after another; a side of a pair may be empty.

    Args:
      paths: one file of tab-separated columns, or the files of source and target.
      columns: those of source and target, from 0; when None, there must be only these two.

    Raises:
      InputError: a file cannot be read, a line does not have these columns, or the sides have
        different numbers of lines.
    """
    if len(paths) == 1:
        yield from _read_columns(paths[0], columns)
        return
    source, target = map(iterate_lines, paths)
    for read, pair in enumerate(itertools.zip_longest(source, target)):
        if None in pair:
            rest = 1 + sum(1 for _ in (source if pair[1] is None else target))
            lines = [read if side is None else read + rest for side in pair]
            raise InputError(
                f"{paths[0]} has {lines[0]} lines, but {paths[1]} has {lines[1]}: line n of one "
                "side must translate line n of the other"
            )
        yield pair


def _read_columns(path: Path, columns: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    source, target = columns or (0, 1)
    for number, line in enumerate(iterate_lines(path), start=1):
        cells = line.split("\t") if line.strip() else [""] * (max(source, target) + 1)
        if columns is None and len(cells) != 2:
            hint = "; name those of source and target, as in data.columns=1,2"
            raise InputError(
                f"{path}, line {number}: expected two columns with one tab between them, got "
                f"{len(cells)}{hint if len(cells) > 2 else ''}"
            )
        if max(source, target) >= len(cells):
            raise InputError(
                f"{path}, line {number}: there is no column {max(source, target) + 1} of "
                f"data.columns, but only {len(cells)}"
            )
        yield cells[source], cells[target]


def read_complete(
    paths: tuple[Path, ...], columns: tuple[int, int] | None = None
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
