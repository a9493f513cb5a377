"""Compressed files, told by the suffix of their names, which are unpacked while they are read."""

import bz2
import gzip
import importlib
import lzma
import sys
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path


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


def damaged() -> tuple[type[Exception], ...]:
    """The errors of reading a file that is missing, or not what its suffix says."""
    known = OSError, EOFError, ValueError, zlib.error, lzma.LZMAError
    zstd = sys.modules.get("compression.zstd")  # imported with the first such file
    return (*known, zstd.ZstdError) if zstd else known
