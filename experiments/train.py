"""Trains one model and evaluates it: `./launch.sh train --workdir=runs/mine --data.name=reverse`.

The same command again resumes from the last checkpoint; a larger --train.steps extends the run.
"""

from absl import flags as absl_flags

from attn_jax.runs.training import train

from . import flags
from .flags import FLAGS
from .program import OF_TRAINING, run


def main() -> None:
    """Trains, then evaluates on the test split if there is one."""
    train(
        flags.given(),
        FLAGS.workdir,
        fallback=flags.value_of("train.fallback"),
        may_be_idle=flags.from_files(),
    )


if __name__ == "__main__":
    flags.define_workdir("folder of the run: new, or one to go on with")
    flags.define_experiment()
    absl_flags.DEFINE_bool(
        "train.fallback", False, "set damaged checkpoints aside, and go on from the last intact one"
    )
    run(main, OF_TRAINING)
