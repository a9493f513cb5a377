"""Files of a run: written completely or not at all, and checked for damage when read."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from attn_jax.errors import InputError, reason


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


@contextlib.contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Context for reading what this project wrote: errors mean that it is missing or damaged.

    Errors of another cause, which are lack of memory and of permission, are raised as they are.

    Args:
      path: the file or folder.
      advice: what follows in the error message.

    Raises:
      InputError: the file or folder is missing or damaged.
    """
    try:
        yield
    except (InputError, MemoryError, PermissionError):
        raise
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error):  # JAX's error for lack of device memory
            raise
        raise InputError(f"{path} is missing or damaged ({reason(error)}){advice}") from error
