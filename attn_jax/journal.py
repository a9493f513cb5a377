"""The journal of a run: one JSON object per line, in order of steps even after a restart."""

import json
from pathlib import Path

from attn_jax import strict_json
from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole


def truncate(path: Path, step: int) -> None:
    """Removes the records of later steps than `step`, which the run will repeat."""
    if path.exists():
        kept = [line for line in read(path) if line["step"] <= step]
        write_whole(path, "".join(strict_json.dumps(line) + "\n" for line in kept))


def append(path: Path, record: dict) -> None:
    """Adds a record, which must have a `step`."""
    with path.open("a") as file:
        file.write(strict_json.dumps(record) + "\n")


def read(path: Path) -> list[dict]:
    """The records of a journal; a last line that was not completely written is left out.

    Raises:
      InputError: the file is missing or damaged.
    """
    records = []
    with reading(path):
        text = path.read_text("utf-8")
        lines = text.splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                records.append(strict_json.loads(line))
            except json.JSONDecodeError:
                if number < len(lines) or text.endswith("\n"):
                    raise
        if not all("step" in record for record in records):
            raise InputError(f"{path} is damaged: a line has no step")
    return records
