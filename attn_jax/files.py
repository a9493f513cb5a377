"""Files of a run: written completely or not at all, and checked for damage when read."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from attn_jax.errors import InputError, reason

CONTENT = "data.txt"  # what the data of a run are, by version or by content


@contextlib.contextmanager
def writing(*paths: Path) -> Iterator[list[Path]]:
    """Places beside files, to write to; they become the files when all is written.

    The files stay as they were where that is interrupted or goes wrong.

    Raises:
      OSError: as the system does, with the name of a file.
    """
    beside = [path.with_name(f"{path.name}.tmp") for path in paths]
    try:
        yield beside
        for own, path in zip(beside, paths, strict=True):
            os.replace(own, path)
    except OSError as error:
        if error.filename is None:  # as where there is no space left
            error.filename = str(paths[0])
        raise
    finally:
        for own in beside:
            own.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a file, or leaves the one before as it was."""
    with writing(path) as (beside,):
        beside.write_text(text, "utf-8")


@contextlib.contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Reading what a program here has written: what goes wrong lies in the file or folder.

    Only too little memory, and files that may not be read, do not.

    Args:
      path: of the file or folder.
      advice: how the sentence about it goes on.

    Raises:
      InputError: it is missing or damaged.
    """
    try:
        yield
    except (InputError, MemoryError, PermissionError):
        raise
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error):  # as JAX says of a device's memory
            raise
        raise InputError(f"{path} is missing or damaged ({reason(error)}){advice}") from error
