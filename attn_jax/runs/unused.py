"""Options that were given but have no effect on the run."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from attn_jax import config
from attn_jax.config import Experiment, Model
from attn_jax.data.synthetic import TASKS
from attn_jax.models.seq2seq import initialize

MADE = (*TASKS, "dates")


def _cut_into(level: str) -> Callable[[Experiment], bool]:
    return lambda run: level in (run.data.source_level, run.data.target_level)


def _stacks_cells(model: Model) -> bool:
    """Whether the encoder or the decoder has several layers of cells; one's own count as such."""
    of_encoder = model.encoder != "transformer" and model.encoder_layers > 1
    return of_encoder or (model.decoder != "transformer" and model.decoder_layers > 1)


# Whether a run uses each option that some runs ignore; `unread` finds options that a model never
# reads.
USES: dict[str, Callable[[Experiment], bool]] = {
    "data.source": lambda run: run.data.name not in MADE,
    "data.target": lambda run: run.data.name not in MADE,
    "data.columns": lambda run: run.data.name == "parallel" and not run.data.source,
    "data.words": _cut_into("word"),
    "data.min_count": _cut_into("word"),
    "data.subwords": _cut_into("subword"),
    "data.character_coverage": _cut_into("subword"),
    "data.examples": lambda run: run.data.name in MADE,
    "data.held_out": lambda run: run.data.name in MADE,
    "data.shortest": lambda run: run.data.name in TASKS,
    "data.longest": lambda run: run.data.name in TASKS,
    "data.symbols": lambda run: run.data.name in TASKS,
    "data.seed": lambda run: run.data.name in MADE,
    "model.initialization": lambda run: not run.train.initial,
    "model.dropout_kind": lambda run: run.model.dropout > 0,
    "model.stack": lambda run: _stacks_cells(run.model),
    "train.guided_head": lambda run: run.train.guided_alignment > 0,
    "train.sampling_steps": lambda run: run.train.scheduled_sampling > 0,
}


def unused(run: Experiment, given: Mapping[str, Any]) -> list[str]:
    """The names of options that differ from their default and have no effect.

    Args:
      run: the options of the run.
      given: those that were given, of which some are shorthands.
    """
    options, usual = config.values(run), config.values(Experiment())
    useless = [
        name for name, uses in USES.items() if options[name] != usual[name] and not uses(run)
    ]
    useless += [f"model.{name}" for name in unread(run.model)]
    units = given.get(config.UNITS)
    default = config.known()[config.UNITS].default  # as in the flag files of earlier versions
    if units is not None and int(units) != default and not has_units(run, given):
        useless.append(config.UNITS)
    return list(dict.fromkeys(useless))


def has_units(run: Experiment, given: Mapping[str, Any]) -> bool:
    """Whether the number of hidden units of parts that do not give their own changes the run."""
    told = {name: given[name] for name in config.PARTS if name in given}
    runs = [
        config.experiment(config.merged(config.values(run), told | {config.UNITS: units}))
        for units in (1, 2)
    ]
    return runs[0] != runs[1]


def unread(model: Model) -> list[str]:
    """The names of options that are not at their default although the model does not use them."""
    read = set()

    class Watched(Model):
        def __getattribute__(self, name: str):
            read.add(name)
            return super().__getattribute__(name)

    # Without `jax.jit`, which would read every option to hash its arguments.
    make = functools.partial(initialize.__wrapped__, Watched(**vars(model)), 5, 5)
    jax.eval_shape(make, jax.random.key(0))
    usual = vars(Model())
    return [name for name in usual if getattr(model, name) != usual[name] and name not in read]


def told(run: Experiment, given: Mapping[str, Any]) -> str:
    """A message that names the options without effect; empty if there are none."""
    options = config.values(run) | {name: given[name] for name in given if name == config.UNITS}
    named = config.told({name: options[name] for name in unused(run, given)})
    return f"this run has no use for {named}" if named else ""
