"""Reads a user's parallel text, and says exactly what is wrong with it."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attn_jax.data.compression import DAMAGED, DECOMPRESS
from attn_jax.errors import InputError


def read_data(path: Path) -> bytes:
    """The content of a file, decompressed if its suffix is one of `DECOMPRESS`.

    Raises:
      InputError: the file cannot be read.
    """
    try:
        return DECOMPRESS.get(path.suffix, bytes)(path.read_bytes())
    except DAMAGED as error:
        # `strerror` is the system's message without the path, which is already given.
        raise InputError(
            f"cannot read {path}: {getattr(error, 'strerror', '') or error}"
        ) from error


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, plain or compressed.

    Raises:
      InputError: the file cannot be read or is empty, or a line is not UTF-8 (the message gives its
        number).
    """
    lines = list(text_lines(io.BytesIO(read_data(path)), str(path)))
    if not lines:
        raise InputError(f"{path} is empty")
    return lines


def text_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of UTF-8 text, without a byte order mark and ends of lines, one by one.

    Args:
      lines: the text, such as a binary file, which may still be written.
      name: the text's name in error messages.

    Raises:
      InputError: a line is not UTF-8 (the message gives its number).
    """
    for number, line in enumerate(lines, start=1):
        start = b"\xef\xbb\xbf" if number == 1 else b""
        yield _decoded(name, number, line.removeprefix(start).removesuffix(b"\n"))


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
        packed = Path(prefix).suffix if Path(prefix).suffix in DECOMPRESS else ""
        stem, _, suffix = prefix.removesuffix(packed).rpartition(".")
        if suffix and suffix in (source, target):
            raise InputError(f"{prefix} is one side of the text: give the prefix of both, {stem}")
        if source or target:
            raise InputError(
                f"{prefix} is one file with a source and a target column: leave out --data.source "
                "and --data.target, which are the suffixes of two files"
            )
        return (Path(prefix),)
    if not source or not target:
        why = "is a folder" if Path(prefix).is_dir() else "does not exist"
        raise InputError(
            f"missing file: {prefix} {why}; if it is the prefix of two files, PREFIX.de and "
            "PREFIX.en, give the suffixes, such as --data.source=de --data.target=en"
        )
    return tuple(_existing(prefix, side) for side in (source, target))


def _existing(prefix: str, side: str) -> Path:
    for packed in ("", *DECOMPRESS):
        path = Path(f"{prefix}.{side}{packed}")
        if path.is_file():
            return path
    raise InputError(
        f"missing file: {prefix}.{side} does not exist, nor does it with {', '.join(DECOMPRESS)}"
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
            "--data.columns must be the numbers of the source and the target column, from 1, as "
            f"in 1,2, got {text!r}"
        )
    return int(named[1]) - 1, int(named[2]) - 1


def read_pairs(
    paths: tuple[Path, ...], columns: tuple[int, int] | None = None
) -> list[tuple[str, str]]:
    """The sentence pairs of one split, a side of which may be empty.

    Args:
      paths: one file of tab-separated columns, or the files of source and target.
      columns: those of source and target, from 0; when None, there must be only these two.

    Raises:
      InputError: a file cannot be read, a line does not have these columns, or the sides have
        different numbers of lines.
    """
    if len(paths) == 1:
        return _read_columns(paths[0], columns)
    source, target = map(read_lines, paths)
    if len(source) != len(target):
        raise InputError(
            f"{paths[0]} has {len(source)} lines, but {paths[1]} has {len(target)}: line n of one "
            "side must translate line n of the other"
        )
    return list(zip(source, target, strict=True))


def _read_columns(path: Path, columns: tuple[int, int] | None) -> list[tuple[str, str]]:
    pairs = []
    source, target = columns or (0, 1)
    for number, line in enumerate(read_lines(path), start=1):
        cells = line.split("\t") if line.strip() else [""] * (max(source, target) + 1)
        if columns is None and len(cells) != 2:
            hint = "; name those of source and target, as in --data.columns=1,2"
            raise InputError(
                f"{path}, line {number}: expected two columns with one tab between them, got "
                f"{len(cells)}{hint if len(cells) > 2 else ''}"
            )
        if max(source, target) >= len(cells):
            raise InputError(
                f"{path}, line {number}: there is no column {max(source, target) + 1} of "
                f"--data.columns, but only {len(cells)}"
            )
        pairs.append((cells[source], cells[target]))
    return pairs


def check_complete(pairs: Sequence[tuple[str, str]], paths: tuple[Path, ...]) -> None:
    """Raises InputError if a sentence is empty; the message gives the first line and their number.

    Args:
      pairs: the sentence pairs.
      paths: the file or files that they were read from.
    """
    empty = [
        f"{paths[side % len(paths)]}, line {number}"
        for number, pair in enumerate(pairs, start=1)
        for side, sentence in enumerate(pair)
        if not sentence.strip()
    ]
    if empty:
        others = f"; {len(empty) - 1} more sentences are empty" if len(empty) > 1 else ""
        raise InputError(f"{empty[0]}: the sentence is empty{others}")
