"""The folder that keeps prepared data sets and compiled programs from one program to the next."""

import contextlib
import os
import time
import warnings
from pathlib import Path

import jax

from attn_jax.errors import InputError


def cache_directory() -> tuple[Path, str]:
    """`$ATTN_JAX_CACHE`, or a folder in the user's cache; and what names that place.

    Raises:
      InputError: the user has no home folder, and no variable names another.
    """
    for variable, below in (("ATTN_JAX_CACHE", ""), ("XDG_CACHE_HOME", "attn_jax")):
        if os.environ.get(variable):
            return Path(os.environ[variable], below), variable
    try:
        return Path.home() / ".cache" / "attn_jax", "the home folder"
    except RuntimeError as error:
        raise InputError(
            "there is no home folder to keep prepared data in: set ATTN_JAX_CACHE to a folder of "
            "yours, or train with data.directory"
        ) from error


def use_compilation_cache() -> None:
    """Keeps compiled programs in the user's cache, from now on and for all of this process.

    Does nothing if JAX has been told of a cache (`JAX_COMPILATION_CACHE_DIR`, which may be empty,
    or `jax.config`), or if the user's cache cannot be written to.
    """
    if jax.config.jax_compilation_cache_dir is not None:
        return
    try:
        folder = cache_directory()[0].absolute() / "programs"
        # Whoever can write there can run code as this user.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (InputError, OSError):
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        return
    # JAX opens the cache at the first compilation that finds a folder set, also if others came
    # before. Most programs of small models compile in less than JAX's least time of a second.
    remove_unused(folder, days=30)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # If it has become impossible, JAX would warn of each program.
    warnings.filterwarnings("ignore", "Error writing persistent compilation cache entry")


def remove_unused(folder: Path, days: int) -> None:
    """Removes compiled programs that no process has read for some days; looks once a day.

    JAX's own limit of size takes half a second for each program that is added to thousands.
    """
    day, now, looked = 24 * 3600, time.time(), folder / ".looked"
    if looked.exists() and now - looked.stat().st_mtime < day:
        return
    for program in os.scandir(folder):
        # Another process may have removed it; XLA keeps folders there, too.
        with contextlib.suppress(OSError):
            # Reading sets the first of these, except on file systems that do not record it.
            times = program.stat()
            if now - max(times.st_atime, times.st_mtime) > days * day:
                os.unlink(program)
    looked.touch()
