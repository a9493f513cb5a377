"""Shows how far a sweep is that runs elsewhere: `./launch.sh watch --workdir=runs/scores`."""

from pathlib import Path

import jax

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.runs.standing import watch


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder of the sweep")


def main() -> None:
    """Shows the sweep until no run of it is left to be made."""
    jax.config.update("jax_platforms", "cpu")  # accelerators are left to the runs
    watch(Path(FLAGS.workdir))
