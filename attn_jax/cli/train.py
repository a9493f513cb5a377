"""Trains one model and evaluates it: `./launch.sh train --workdir=runs/mine --data.name=reverse`.

The same command again resumes from the last checkpoint; a larger --train.steps extends the run.
"""

import os
import signal
import threading
from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import distributed, flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import OF_TRAINING
from attn_jax.records import states
from attn_jax.runs.measuring import measure
from attn_jax.runs.training import train
from attn_jax.training.processes import only_first_tells

ADVICE = OF_TRAINING


def define() -> None:
    """Defines the flags."""
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
    absl_flags.DEFINE_integer("in_sweep", None, "set by a sweep: a pipe that ends when it dies")
    absl_flags.DEFINE_string(
        "record", "", "set by who measures runs: the folder where --dry_run records what it found"
    )


def main() -> None:
    """Trains, then evaluates on the test split if there is one; or only measures how fast it is."""
    if FLAGS.in_sweep is not None:
        threading.Thread(target=_end_with_sweep, args=[FLAGS.in_sweep], daemon=True).start()
    with distributed.connected():
        try:
            if FLAGS.dry_run:
                _measure()
                return
            train(
                flags.given(),
                FLAGS.workdir,
                fallback=flags.value_of("train.fallback"),
                evaluate_on=FLAGS.evaluate_on,
            )
        except Exception as error:
            if FLAGS.in_sweep is not None:
                states.failed(Path(FLAGS.record or FLAGS.workdir), error)
            raise


def _measure() -> None:
    """Measures how fast the run is; tells the sweep that asked for it, or else the user."""
    cost = measure(flags.given(), FLAGS.workdir, Path(FLAGS.record) if FLAGS.record else None)
    with only_first_tells():
        print(
            f"a step takes {cost.step:.4f} s, and a validation about {cost.validation:.3f} s; "
            f"compilation took {cost.compilation:.1f} s"
        )


def _end_with_sweep(pipe: int) -> None:
    """Saves and ends once the process that has started this one is dead."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
