"""Files that are there whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a file, or leaves the one before as it was if that is interrupted."""
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(text, "utf-8")
    os.replace(beside, path)
