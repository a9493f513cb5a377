"""Files of a run: written completely or not at all, and checked for damage when read."""

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from attn_jax.errors import InputError, reason


def path_of(place: str | os.PathLike) -> Path:
    """The path that a caller gives.

    Raises:
      InputError: it is none.
    """
    try:
        return Path(place)
    except TypeError:
        raise InputError(f"expected the path of a folder, got {place!r}") from None


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a stream is a terminal, also where FORCE_COLOR is set.

    Notebooks set it, and the processes that they start inherit it, whose output goes into files.
    """
    return stream is not None and stream.isatty()


@contextlib.contextmanager
def writing(*paths: Path) -> Iterator[list[Path]]:
    """Yields temporary paths to write to, which replace the files when all have been written.

    If writing is interrupted or fails, the files stay as they were.

    Raises:
      OSError: writing failed; the error always names a file.
    """
    # The process is in the name, since two may write the same file, such as an evaluation.
    beside = [path.with_name(f"{path.name}.{os.getpid()}.tmp") for path in paths]
    try:
        yield beside
        for temporary, path in zip(beside, paths, strict=True):
            os.replace(temporary, path)
    except OSError as error:
        if error.filename is None:  # for example when there is no space left
            error.filename = str(paths[0])
        raise
    finally:
        for temporary in beside:
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file completely, or leaves the existing file as it was."""
    with writing(path) as (beside,):
        beside.write_text(text, "utf-8")


# Errors which tell that a file is not there, or that its content is not what was written.
_OF_DAMAGE = (
    FileNotFoundError,
    NotADirectoryError,
    IsADirectoryError,
    json.JSONDecodeError,
    UnicodeDecodeError,
    LookupError,
    TypeError,
    EOFError,
    zipfile.BadZipFile,
)
# TensorStore, by which Orbax reads arrays, gives the kind of its errors in their text.
_OF_DAMAGED_ARRAYS = ("NOT_FOUND:", "DATA_LOSS:", "OUT_OF_RANGE:", "FAILED_PRECONDITION:")


def _is_damage(error: BaseException) -> bool:
    cause = error.__cause__ or error
    return isinstance(cause, _OF_DAMAGE) or str(cause).startswith(_OF_DAMAGED_ARRAYS)


@contextlib.contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Context for reading what this project wrote.

    Lack of memory and of permission is raised as it is.

    Args:
      path: the file or folder.
      advice: what follows in the error message if the file or folder is missing or damaged.

    Raises:
      InputError: the file or folder is missing or damaged, or cannot be read for another reason.
    """
    try:
        yield
    except (InputError, MemoryError, PermissionError):
        raise
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error):  # JAX's error for lack of device memory
            raise
        if _is_damage(error):
            told = f"{path} is missing or damaged ({reason(error)}){advice}"
            raise InputError(told) from error
        raise InputError(f"{path} cannot be read ({reason(error)})") from error
