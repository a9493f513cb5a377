"""The journal of a run: one JSON object per line, in order of steps even after a restart."""

from pathlib import Path
from typing import Any

from attn_jax.errors import InputError, reason
from attn_jax.files import reading, write_whole
from attn_jax.records import seals


def truncate(path: Path, step: int) -> list[dict]:
    """Removes the records of later steps than `step`, which the run will repeat.

    Returns:
      The records that are left: none where there is no journal.
    """
    if not path.exists():
        return []
    kept = [record for record in read(path) if record["step"] <= step]
    write_whole(path, "".join(seals.dumps(record) + "\n" for record in kept))
    return kept


def append(path: Path, record: dict) -> None:
    """Adds a record, which must have a `step`."""
    with path.open("a") as file:
        file.write(seals.dumps(record) + "\n")


def read(path: Path) -> list[dict]:
    """The records of a journal; a last line that was not completely written is left out.

    Raises:
      InputError: the file is missing or damaged.
    """
    with reading(path):
        text = path.read_text("utf-8")
    lines = text.splitlines()
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = seals.loads(line, f"{path}: line {number}")
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not text.endswith("\n"):
                break
            raise InputError(f"{path}: line {number} is damaged ({reason(error)})") from error
        _check(record, f"{path}: line {number}")
        records.append(record)
    return records


def _check(record: Any, where: str) -> None:
    if not isinstance(record, dict) or "step" not in record:
        raise InputError(f"{where} is damaged: it has no step")
    step = record["step"]
    if type(step) is not int or step < 1:
        raise InputError(f"{where} is damaged: its step must be a whole number, got {step!r:.40}")
