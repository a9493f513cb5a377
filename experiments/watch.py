"""Shows how far a sweep is that runs elsewhere: `./launch.sh watch --workdir=runs/scores`."""

from pathlib import Path

import jax

from attn_jax.runs.view import watch

from .command import flags
from .command.flags import FLAGS
from .command.program import run


def main() -> None:
    """Shows the sweep until no run of it is left to be made."""
    jax.config.update("jax_platforms", "cpu")  # accelerators are left to the runs
    watch(Path(FLAGS.workdir))


if __name__ == "__main__":
    flags.define_workdir("folder of the sweep")
    run(main)
