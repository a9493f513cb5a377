"""Going on without damaged checkpoints."""

import shutil
import sys
import time
from pathlib import Path

from attn_jax.errors import InputError
from attn_jax.records import run_files
from attn_jax.training.checkpoint import Checkpoints


def set_aside(workdir: Path) -> None:
    """Moves the damaged checkpoints of a run to a folder of their own, and says which.

    The journal is copied there too, since the run will repeat what came after the last intact one.

    Raises:
      InputError: no checkpoint is intact; then, none is moved.
    """
    checkpoints = Checkpoints(run_files.checkpoints(workdir))
    steps, damaged = checkpoints.steps, []
    for step in steps:
        try:
            checkpoints.verify(step)
        except (InputError, OSError):
            damaged.append(step)
    if not damaged:
        return
    if len(damaged) == len(steps):
        raise InputError(
            f"no checkpoint of {workdir} is intact, of steps {', '.join(map(str, steps))}: put a "
            "copy of one back, or begin anew in another folder"
        )
    aside = run_files.damaged(workdir) / time.strftime("%Y%m%d-%H%M%S")
    aside.mkdir(parents=True)
    if run_files.journal(workdir).is_file():
        shutil.copy2(run_files.journal(workdir), aside)
    for step in damaged:
        checkpoints.place(step).rename(aside / str(step))
        told = f"{checkpoints.place(step)} is damaged, and was set aside as {aside / str(step)}"
        print(f"warning: {told}", file=sys.stderr)
