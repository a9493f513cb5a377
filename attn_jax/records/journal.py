"""The journal of a run: one JSON object per line, in order of steps even after a restart."""

from pathlib import Path
from typing import Any

from attn_jax.records import manifest, run_files, strict_json


def append(workdir: Path, record: dict[str, Any]) -> None:
    """Adds the record of a validation, which must have a `step`."""
    manifest.append(workdir, run_files.journal(workdir), strict_json.dumps(record) + "\n")


def truncate(workdir: Path, step: int) -> int:
    """Removes the lines after those of the first `step` steps, which the run will repeat.

    Returns:
      How many were removed.
    """
    if not is_begun(workdir):
        return 0
    file = run_files.journal(workdir)
    kept = [record for record in read(workdir) if record["step"] <= step]
    removed = len(file.read_bytes().splitlines()) - len(kept)
    if removed:
        lines = "".join(strict_json.dumps(record) + "\n" for record in kept)
        manifest.write(workdir, file, lines)
    return removed


def is_begun(workdir: Path) -> bool:
    """Whether a run has a journal, or should have one."""
    return manifest.knows(workdir, run_files.journal(workdir))


def read(workdir: Path) -> list[dict[str, Any]]:
    """The records of a run; a last line that was not completely written is left out.

    Raises:
      InputError: the journal is missing or damaged.
    """
    lines = manifest.content(workdir, run_files.journal(workdir)).decode().splitlines()
    return list(map(strict_json.loads, lines))
