"""Reads a user's parallel text, and says exactly what is wrong with it."""

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path

from attn_jax.data.compression import OPEN, damaged
from attn_jax.data.joined_texts import joined
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
    for read, together in enumerate(itertools.zip_longest(*files)):
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
