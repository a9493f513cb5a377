"""Lines of UTF-8 files, which are unpacked while they are read if their suffix says so."""

import bz2
import contextlib
import gzip
import hashlib
import importlib
import itertools
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from pathlib import Path

from attn_jax.errors import InputError

MARK = b"\xef\xbb\xbf"  # of byte order, which some programs put before UTF-8 text


def _zstandard(path: Path) -> BufferedIOBase:
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError as error:
        raise OSError(
            f"Python {sys.version_info.major}.{sys.version_info.minor} does not know Zstandard, "
            "which Python 3.14 does; unpack the file with zstd -d"
        ) from error
    return zstd.open(path)


OPEN: dict[str, Callable[[Path], BufferedIOBase]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstandard,
}


def _damaged() -> tuple[type[Exception], ...]:
    """The errors of reading a file that is missing, or not what its suffix says."""
    known = OSError, EOFError, ValueError, zlib.error, lzma.LZMAError
    zstd = sys.modules.get("compression.zstd")  # imported with the first such file
    return (*known, zstd.ZstdError) if zstd else known


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """Opens a file, to be decompressed while it is read if its suffix is one of `OPEN`."""
    try:
        with OPEN[path.suffix](path) if path.suffix in OPEN else path.open("rb") as file:
            yield file
    except InputError:
        raise
    except _damaged() as error:
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
        try:
            text = line.removesuffix(b"\n").decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, line {number}: not UTF-8 ({error.reason})") from error
        yield text


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines of bytes without a byte order mark, which does not make a line by itself."""
    lines = iter(lines)
    first = next(lines, b"").removeprefix(MARK)
    return itertools.chain([first] if first else [], lines)
