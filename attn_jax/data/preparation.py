"""Prepares a TFDS data set once, however many runs ask for it at the same time."""

import contextlib
import fcntl
import io
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import tensorflow_datasets as tfds

from attn_jax.data.in_order import in_order
from attn_jax.data.text_pairs import TextPairs
from attn_jax.errors import InputError, reason

Builder = tfds.core.DatasetBuilder
REMOVE = ": remove that folder, and the data are prepared again"


def prepared(make: Callable[[], Builder], directory: Path, origin: str) -> Builder:
    """The builder that `make` returns, with its data prepared under `directory`.

    The first process prepares the data while others wait for its lock. A builder made before the
    data were written never sees their splits, so each check is on a new one.

    Args:
      make: makes a builder.
      directory: the folder of the data set.
      origin: what names its place, for messages: a flag or a variable of the environment.

    Raises:
      InputError: the prepared data are damaged, the folder cannot be written to, `make` raises it,
        or TFDS cannot prepare the data.
    """
    builder = _made(make, directory)
    if builder.info.splits:
        return builder
    with _lock_in(directory, origin) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builder = _made(make, directory)
        if not builder.info.splits:
            _prepare(builder)
    return _made(make, directory)


def _made(make: Callable[[], Builder], directory: Path) -> Builder:
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)  # TFDS warns of every data set that it does not ship
    try:
        with reading_prepared(directory):
            return make()
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def reading_prepared(folder: Path) -> Iterator[None]:
    """Context for reading prepared data, which may be removed whatever the cause of an error.

    Raises:
      InputError: they are missing or damaged.
    """
    try:
        yield
    except (InputError, MemoryError, PermissionError):
        raise
    except Exception as error:
        raise InputError(f"{folder} is missing or damaged ({reason(error)}){REMOVE}") from error


def _lock_in(directory: Path, origin: str) -> IO[str]:
    """A new file to lock in a folder, which is made if it does not exist."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        return open(directory / ".prepare.lock", "w")
    except OSError as error:
        raise InputError(
            f"prepared data cannot be kept in {directory} ({error.strerror}), a place named by "
            f"{origin}: set ATTN_JAX_CACHE to a folder of yours, or train with data.directory"
        ) from error


def _prepare(builder: Builder) -> None:
    name = builder.info.full_name
    ordered = isinstance(builder, TextPairs)
    if not ordered:
        print(f"TFDS downloads and prepares {name}: once, but it may take long", file=sys.stderr)
    tfds.disable_progress_bar()
    # Keeps TFDS's messages out of the output of the program.
    streamed = in_order() if ordered else contextlib.nullcontext()
    with contextlib.redirect_stdout(io.StringIO()), _preparing(name), streamed:
        # Google's copies of prepared data are in another format.
        options = tfds.download.DownloadConfig(try_download_gcs=False)
        builder.download_and_prepare(download_config=options, file_format="array_record")


@contextlib.contextmanager
def _preparing(name: str) -> Iterator[None]:
    """Turns errors from downloading and unpacking into `InputError`; those of the system stay."""
    try:
        yield
    except Exception as error:
        # A download that fails raises an OSError without a number.
        if isinstance(error, InputError | MemoryError) or getattr(error, "errno", None):
            raise
        raise InputError(f"{name} cannot be prepared ({reason(error)})") from error
