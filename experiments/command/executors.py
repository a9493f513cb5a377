"""Flags that choose what starts the runs of a sweep."""

from typing import Any

from absl import flags

from attn_jax.errors import InputError
from attn_jax.runs import on_ray, on_slurm
from attn_jax.runs.engines import Engine
from attn_jax.runs.on_ray import Ray
from attn_jax.runs.on_slurm import Slurm
from attn_jax.settings.fields import kind_of

from .flags import DEFINE, FLAGS, value_of

flags.disclaim_key_flags()

LOCAL = "local"
NAMES = {
    "slurm": [f"slurm.{name}" for name in on_slurm.OPTIONS],
    "ray": [f"ray.{name}" for name in on_ray.OPTIONS],
}


def define() -> None:
    """Defines `--executor` and the flags of each."""
    flags.DEFINE_enum(
        "executor",
        LOCAL,
        [LOCAL, *NAMES],
        "what starts the runs: this process; Slurm, by submitit; or Ray",
    )
    for name, help in on_slurm.OPTIONS.items():
        usual = on_slurm.USUAL.get(name)
        flags.DEFINE_string(f"slurm.{name}", usual, f"sbatch --{name}: {help}")
    for name, field in on_ray.OPTIONS.items():
        DEFINE[kind_of(field)](f"ray.{name}", field.default, field.metadata["help"])


def executor() -> Engine | None:
    """What starts the runs; None: this process.

    Raises:
      InputError: an option of another one is given.
    """
    given: dict[str, dict[str, Any]] = {
        engine: {name.partition(".")[2]: value_of(name) for name in names if FLAGS[name].present}
        for engine, names in NAMES.items()
    }
    for engine, options in given.items():
        for name in options:
            if FLAGS.executor != engine:
                raise InputError(f"--{engine}.{name} is for --executor={engine}")
    if FLAGS.executor == "slurm":
        return Slurm(given["slurm"])
    return Ray(**given["ray"]) if FLAGS.executor == "ray" else None
