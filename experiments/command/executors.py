"""Flags that choose what makes the runs of a sweep."""

from concurrent.futures import Executor
from pathlib import Path

from absl import flags

from attn_jax.errors import InputError
from attn_jax.runs.slurm import OPTIONS, USUAL, Slurm

from .flags import FLAGS, value_of

flags.disclaim_key_flags()


def define() -> None:
    """Defines `--executor` and the options of Slurm."""
    flags.DEFINE_enum(
        "executor", "local", ["local", "slurm"], "what makes the runs: this process, or Slurm"
    )
    for name, help in OPTIONS.items():
        flags.DEFINE_string(f"slurm.{name}", USUAL.get(name), f"sbatch --{name}: {help}")


def executor() -> Executor | None:
    """What makes the runs; None: this process.

    Raises:
      InputError: an option of Slurm is given without it, or there is no Slurm here.
    """
    given = {name: value_of(f"slurm.{name}") for name in OPTIONS if FLAGS[f"slurm.{name}"].present}
    if FLAGS.executor == "slurm":
        return Slurm(given, Path(FLAGS.workdir, "slurm"))
    for name in given:
        raise InputError(f"--slurm.{name} is for --executor=slurm")
    return None
