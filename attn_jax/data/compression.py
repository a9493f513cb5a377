"""Compressed files, told by the suffix of their names."""

import bz2
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable


def _zstandard(data: bytes) -> bytes:
    try:
        from compression import zstd
    except ImportError as error:
        raise OSError(
            f"Python {sys.version_info.major}.{sys.version_info.minor} does not know Zstandard, "
            "which Python 3.14 does; unpack the file with zstd -d"
        ) from error
    try:
        return zstd.decompress(data)
    except zstd.ZstdError as error:
        raise OSError(str(error)) from error


DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": _zstandard,
}
DAMAGED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)  # what they raise
