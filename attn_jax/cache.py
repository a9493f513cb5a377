"""The folder that keeps prepared data sets and compiled programs from one program to the next."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """`$ATTN_JAX_CACHE`, or a folder in the user's cache."""
    folder = os.environ.get("ATTN_JAX_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attn_jax"
