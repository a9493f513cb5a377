"""The facts of a checkpoint: JSON beside its arrays, which says what they belong to.

Besides the progress of the run, they hold the options and how they have changed, digests of the
vocabularies and of copies of the user's own code, and a digest of the facts themselves, so that no
file can change in silence.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.records import changes, own_code, run_files
from attn_jax.records.seals import opened

SIDES = ("source", "target")


def of_run(workdir: Path) -> dict[str, Any]:
    """What the checkpoints of a run record of its files; nothing if the folder holds no run.

    Raises:
      InputError: a file is missing or damaged.
    """
    if not run_files.flags(workdir).is_file():
        return {}
    return {
        "options": config.texts(config.recorded(run_files.flags(workdir))),
        "changes": [change.stored for change in changes.read(workdir)],
        "vocabularies": {side: _digest_of(run_files.vocabulary(workdir, side)) for side in SIDES},
        "code": {module: _digest_of(copy) for module, copy in own_code.copies(workdir).items()},
    }


def file_of(checkpoint: Path) -> Path:
    """The file of the facts of the checkpoint in a folder, as Orbax names it."""
    return checkpoint / "facts" / "metadata"


def read(checkpoint: Path, advice: str = "") -> dict[str, Any]:
    """The facts of the checkpoint in a folder.

    Args:
      checkpoint: the folder.
      advice: what follows in the error message.

    Raises:
      InputError: they are missing or damaged.
    """
    file = file_of(checkpoint)
    with reading(file, advice):
        facts = opened(json.loads(file.read_bytes()), str(file), advice)
        if not facts["sha256"]:  # of the arrays
            raise InputError(f"{file} is damaged: it has changed{advice}")
        return facts


def check(workdir: Path, checkpoint: Path, facts: dict[str, Any]) -> None:
    """Checks that the files of a run still say what they said when a checkpoint was written.

    Options that may change in the course of a run need only be there.

    Raises:
      InputError: a file is missing or has changed.
    """
    step = int(checkpoint.name)
    if [one.stored for one in changes.read(workdir) if one.step < step] != facts["changes"]:
        raise InputError(
            f"{run_files.changes(workdir)} has changed since {checkpoint} was written: put a copy "
            "of it back"
        )
    changed = _changed_lines(workdir, step, facts["options"])
    if changed:
        raise InputError(
            f"{run_files.flags(workdir)} has changed since {checkpoint} was written: "
            f"{'; '.join(changed)}"
        )
    files = {run_files.vocabulary(workdir, side): d for side, d in facts["vocabularies"].items()}
    code = {own_code.copy_of(workdir, module): d for module, d in facts["code"].items()}
    for file, digest in (files | code).items():
        if _digest_of(file) != digest:
            raise InputError(
                f"{file} has changed since {checkpoint} was written: put a copy of it back"
            )


def _changed_lines(workdir: Path, step: int, recorded: dict[str, Any]) -> list[str]:
    """Phrases for lines of a flag file that are lost, or whose meaning at a step has changed."""
    now, before = changes.options_at(workdir, step), config.given(recorded)
    stated = config.stated(run_files.flags(workdir))
    lost = [f"the line --{config.told({n: before[n]})} is lost" for n in before if n not in stated]
    differing = config.differing(before, now)
    return lost + [
        told for n, told in differing.items() if n in stated and n not in config.MAY_CHANGE
    ]


def _digest_of(file: Path) -> str:
    with reading(file):
        return hashlib.sha256(file.read_bytes()).hexdigest()
