"""Prepares a TFDS data set once, however many runs ask for it at the same time."""

import contextlib
import fcntl
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attn_jax.errors import InputError, reason
from attn_jax.files import reading

Builder = tfds.core.DatasetBuilder


def cache_directory() -> Path:
    """Where data sets and compiled programs are kept: `$ATTN_JAX_CACHE` or the user's cache."""
    own = os.environ.get("ATTN_JAX_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attn_jax"


def prepared(make: Callable[[], Builder], directory: Path) -> Builder:
    """The builder that `make` makes, its data written under `directory` by whoever comes first.

    A builder made before another process has written its data keeps no splits, so each look is at
    a new one.

    Raises:
      InputError: what was written is damaged, `make` says why there is nothing to prepare, or TFDS
        why it cannot.
    """
    with reading(directory):
        builder = make()
    if builder.info.splits:
        return builder
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".prepare.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        builder = make()
        if not builder.info.splits:
            # What TFDS prints would stand between the lines of the program that asked.
            tfds.disable_progress_bar()
            with contextlib.redirect_stdout(io.StringIO()), _preparing(builder.info.full_name):
                builder.download_and_prepare(file_format="array_record")
    return make()


@contextlib.contextmanager
def _preparing(name: str) -> Iterator[None]:
    """Downloading and unpacking, in which servers and archives fail in types of TFDS's own."""
    try:
        yield
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{name} cannot be prepared ({reason(error)})") from error
