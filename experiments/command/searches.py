"""Flags of the search for the setting of each system of a sweep."""

from absl import flags

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.runs.tuning import RANGES, Trials

from .flags import FLAGS, value_of

flags.disclaim_key_flags()

ALONE = ("list", "dry_run", "only", "part")  # flags of `sweep` that are for one sweep


def define() -> None:
    """Defines `--search.trials`, and a flag for each option that may be searched."""
    flags.DEFINE_integer("search.trials", 0, "trials of each system, by which it is tuned first")
    flags.DEFINE_integer("search.seeds", 3, "runs of each system with the setting that was best")
    told = "; ".join(RANGES.values())
    for name, field in config.known().items():
        flags.DEFINE_string(f"search.{name}", None, f"{told}: {field.metadata['help']}")


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
    space = {name: value_of(f"search.{name}") for name in config.known()}
    return Trials(
        value_of("search.trials"),
        {name: text for name, text in space.items() if text},
        value_of("search.seeds"),
    )
