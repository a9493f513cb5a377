"""Flags of sweeps: files of systems, the search for their settings, and what makes the runs."""

import shlex
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from attn_jax import config
from attn_jax.cli import flags
from attn_jax.cli.flag_files import found
from attn_jax.cli.flags import FLAGS
from attn_jax.errors import InputError
from attn_jax.runs.executor import MOST_JOBS
from attn_jax.runs.slurm import OPTIONS, USUAL, Slurm
from attn_jax.runs.tuning import RANGES, Trials

absl_flags.disclaim_key_flags()

ALONE = ("list", "dry_run", "only", "part")  # flags of `sweep` that are for one sweep


def define_jobs() -> None:
    """Defines `--jobs`."""
    absl_flags.DEFINE_integer(
        "jobs",
        0,
        "runs at a time of this process; 0: one for each GPU, else for each core, at most "
        f"{MOST_JOBS}",
        lower_bound=0,
    )


def define_executor() -> None:
    """Defines `--executor` and the options of Slurm."""
    absl_flags.DEFINE_enum(
        "executor", "local", ["local", "slurm"], "what makes the runs: this process, or Slurm"
    )
    for name, help in OPTIONS.items():
        absl_flags.DEFINE_string(f"slurm.{name}", USUAL.get(name), f"sbatch --{name}: {help}")


def executor() -> Executor | None:
    """What makes the runs; None: this process.

    Raises:
      InputError: an option of Slurm is given without it, or there is no Slurm here.
    """
    given = {
        name: str(FLAGS[f"slurm.{name}"].value)
        for name in OPTIONS
        if FLAGS[f"slurm.{name}"].present
    }
    if FLAGS.executor == "slurm":
        return Slurm(given, Path(FLAGS.workdir, "slurm"))
    for name in given:
        raise InputError(f"--slurm.{name} is for --executor=slurm")
    return None


def define_search() -> None:
    """Defines `--search.trials`, and a flag for each option that may be searched."""
    told = "; ".join(RANGES.values())
    absl_flags.DEFINE_integer(
        "search.trials", 0, "trials of each system, by which it is tuned first"
    )
    absl_flags.DEFINE_integer(
        "search.seeds", 3, "runs of each system with the setting that was best"
    )
    for name, field in config.known().items():
        absl_flags.DEFINE_string(f"search.{name}", None, f"{told}: {field.metadata['help']}")


def search() -> Trials | None:
    """How each system is tuned first; None if it is not.

    Raises:
      InputError: trials cannot be drawn, or not with these flags.
    """
    names = ["trials", "seeds", *config.known()]
    given = [f"search.{name}" for name in names if FLAGS[f"search.{name}"].present]
    if not given:
        return None
    for name in ALONE:
        if FLAGS[name].present:
            raise InputError(
                f"--{name} is for one sweep, and --{given[0]} makes two: the trials are a sweep in "
                "the folder trials"
            )
    space = {name: flags.value_of(f"search.{name}") for name in config.known()}
    return Trials(
        flags.value_of("search.trials"),
        {name: text for name, text in space.items() if text},
        flags.value_of("search.seeds"),
    )


def systems() -> list[dict[str, Any]]:
    """The systems of the file that `--systems` names; none if it names none."""
    return read_systems(Path(found(FLAGS.systems))) if FLAGS.systems else []


def read_systems(file: Path) -> list[dict[str, Any]]:
    """The options on each line of a file, which may name flag files; `#` starts a comment.

    Raises:
      InputError: the file cannot be read or names no system, or a line holds a word that is not an
        option or a value that is not allowed.
    """
    systems = []
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            system = flags.options_of(shlex.split(line, comments=True))
            config.experiment(system)
        except ValueError as error:  # InputError is one
            raise InputError(f"{file}, line {number}: {error}") from error
        if system:
            systems.append(system)
    if not systems:
        raise InputError(f"{file} names no system")
    return systems
