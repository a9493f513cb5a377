"""Trains one model and evaluates it: `./launch.sh train --workdir=runs/mine --data.name=reverse`.

The same command again resumes from the last checkpoint; a larger --train.steps extends the run.
"""

import contextlib
import os
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.records.claims import keeping
from attn_jax.runs.folder import in_use
from attn_jax.runs.measuring import SAID, pace
from attn_jax.runs.training import StepListener, train
from attn_jax.training.processes import only_first_tells

from .command import distributed, flags
from .command.flags import FLAGS
from .command.program import OF_TRAINING, run


def main() -> None:
    """Trains, then evaluates on the test split if there is one; or only measures how fast it is."""
    with distributed.connected():
        if FLAGS.dry_run:
            measured = pace(flags.given(), FLAGS.workdir)
            with only_first_tells():
                print(SAID.format(*measured))
            return
        with claimed() as on_step:
            train(
                flags.given(),
                FLAGS.workdir,
                on_step=on_step,
                fallback=flags.value_of("train.fallback"),
                evaluate_on=FLAGS.evaluate_on,
            )


def claimed() -> contextlib.AbstractContextManager[StepListener | None]:
    """Keeps the claim of a sweep alive, if one has started this program."""
    if not FLAGS.claim:
        return contextlib.nullcontext()

    def lost() -> None:
        """Ends at once: what is written from now on would mix with what another writes."""
        os.write(2, f"error: {in_use(Path(FLAGS.workdir))}\n".encode())
        os._exit(2)

    return keeping(Path(FLAGS.claim), lost)


if __name__ == "__main__":
    flags.define_workdir("folder of the run: new, or one to go on with")
    flags.define_experiment()
    absl_flags.DEFINE_bool(
        "train.fallback", False, "set damaged checkpoints aside, and go on from the last intact one"
    )
    absl_flags.DEFINE_list(
        "evaluate_on", ["test"], "splits to evaluate on at the end: train, validation, test"
    )
    distributed.define()
    absl_flags.DEFINE_bool("dry_run", False, "measure how fast the run is, and write nothing")
    absl_flags.DEFINE_string("claim", "", "set by a sweep: its claim on this run, to keep alive")
    run(main, OF_TRAINING)
