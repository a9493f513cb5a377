"""Options that have no effect on any run of a call."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment, shorthands
from attn_jax.data.datasets import DATASETS
from attn_jax.data.synthetic import TASKS
from attn_jax.models.choices import options_of
from attn_jax.settings.fields import checked
from attn_jax.training.losses import Guided

MADE = DATASETS.keys() - {"parallel"}

Runs = Sequence[tuple[Experiment, Mapping[str, Any]]]  # each with the options that were given


def _cut_into(level: str) -> Callable[[Experiment], bool]:
    return lambda run: (
        level
        in (
            run.data.source_level,
            run.data.target_level,
            *[run.data.second_level] * (run.data.sources - 1),
        )
    )


def _is_made(run: Experiment) -> bool:
    return run.data.name in MADE


def _is_not_made(run: Experiment) -> bool:
    return not _is_made(run)


def _is_task(run: Experiment) -> bool:
    return run.data.name in TASKS


def _stacks_cells(run: Experiment) -> bool:
    """Whether the encoder or the decoder has several layers of cells; one's own count as such."""
    model = run.model
    of_encoder = model.encoder != "transformer" and model.encoder_layers > 1
    return of_encoder or (model.decoder != "transformer" and model.decoder_layers > 1)


_has_words, _has_subwords = _cut_into("word"), _cut_into("subword")

# Which runs use an option, if the parts of the model do not say it: see `options_of`.
USED_BY: dict[str, Callable[[Experiment], bool]] = {
    "data.source": _is_not_made,
    "data.target": _is_not_made,
    "data.columns": lambda run: run.data.name == "parallel" and not run.data.source,
    "data.second_source": lambda run: run.data.name == "parallel" and bool(run.data.source),
    "data.second_level": lambda run: run.data.sources == 2,
    "data.words": _has_words,
    "data.min_count": _has_words,
    "data.subwords": _has_subwords,
    "data.character_coverage": _has_subwords,
    "data.examples": _is_made,
    "data.held_out": _is_made,
    "data.shortest": _is_task,
    "data.longest": _is_task,
    "data.symbols": _is_task,
    "data.seed": _is_made,
    "model.stack": _stacks_cells,
    "model.initialization": lambda run: not run.train.initial,
    "model.dropout_kind": lambda run: run.model.dropout > 0,
    shorthands.GUIDED_HEAD: lambda run: any(isinstance(loss, Guided) for loss in run.train.losses),
    "train.sampling_steps": lambda run: run.train.scheduled_sampling > 0,
}


def is_used(name: str, run: Experiment, given: Mapping[str, Any]) -> bool:
    """Whether an option has an effect on a run.

    Args:
      name: of the option.
      run: its options.
      given: those that were given, of which some are shorthands.
    """
    if name == config.UNITS:
        return has_units(run, given)
    group, _, option = name.rpartition(".")
    if group == "model" and option not in options_of(run.model):
        return False
    return name not in USED_BY or USED_BY[name](run)


def warn(runs: Runs, names: Iterable[str]) -> None:
    """Warns of those options of a call that have no effect on any of its runs."""
    if idle := unused(runs, names):
        warnings.warn(f"no run here uses {', '.join(idle)}", stacklevel=4)


def unused(runs: Runs, names: Iterable[str]) -> list[str]:
    """Those options that differ from their defaults in a run, and have no effect on any."""
    differing = {name for run in runs for name in _differing(*run)}
    return [
        name
        for name in sorted(differing & {*names})
        if not any(is_used(name, *run) for run in runs)
    ]


def _differing(run: Experiment, given: Mapping[str, Any]) -> list[str]:
    """The names of options that differ from their defaults, shorthands included."""
    options, usual = config.values(run), config.values(Experiment())
    differing = [name for name in options if options[name] != usual[name]]
    # The flag files of earlier versions have all shorthands, most of them with their defaults.
    short = checked(shorthands.KNOWN, {n: v for n, v in given.items() if n in shorthands.KNOWN})
    return differing + [n for n, value in short.items() if not shorthands.is_usual(n, value)]


def has_units(run: Experiment, given: Mapping[str, Any]) -> bool:
    """Whether the number of hidden units of parts that do not give their own changes the run."""
    told = {name: given[name] for name in config.PARTS if name in given}
    runs = [
        config.experiment(config.merged(config.values(run), told | {config.UNITS: units}))
        for units in (1, 2)
    ]
    return runs[0] != runs[1]
