"""Options that concern no run of a command."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.config import Experiment, Model, shorthands
from attn_jax.data.datasets import DATASETS
from attn_jax.data.synthetic import TASKS
from attn_jax.errors import InputError
from attn_jax.models.choices import options_of
from attn_jax.settings.fields import checked
from attn_jax.training.losses import Guided

MADE = DATASETS.keys() - {"parallel"}


class Concern(NamedTuple):
    """What an option is about, and whether a run has that.

    `has` is what the classes of the models do not say: see `options_of`.
    """

    what: str
    has: Callable[[Experiment], bool] = lambda run: True


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


def _is_task(run: Experiment) -> bool:
    return run.data.name in TASKS


def _stacks_cells(model: Model) -> bool:
    """Whether the encoder or the decoder has several layers of cells; one's own count as such."""
    of_encoder = model.encoder != "transformer" and model.encoder_layers > 1
    return of_encoder or (model.decoder != "transformer" and model.decoder_layers > 1)


RECURRENT = Concern("recurrent encoders and decoders")
BLOCKS = Concern("transformer encoders and decoders")
WORDS = Concern("text that is cut into words", _cut_into("word"))
SUBWORDS = Concern("text that is cut into subwords", _cut_into("subword"))
GENERATED = Concern("generated data", _is_made)
SEQUENCES = Concern("copy, reverse or sort", _is_task)
NOT_GENERATED = Concern("text of your own or of TFDS", lambda run: not _is_made(run))

# The options that do not concern all runs.
CONCERNS: dict[str, Concern] = {
    "data.source": NOT_GENERATED,
    "data.target": NOT_GENERATED,
    "data.columns": Concern(
        "text of your own in one TSV",
        lambda run: run.data.name == "parallel" and not run.data.source,
    ),
    "data.second_source": Concern(
        "text of your own in files of a side each",
        lambda run: run.data.name == "parallel" and bool(run.data.source),
    ),
    "data.second_level": Concern("a second source", lambda run: run.data.sources == 2),
    "data.words": WORDS,
    "data.min_count": WORDS,
    "data.subwords": SUBWORDS,
    "data.character_coverage": SUBWORDS,
    "data.examples": GENERATED,
    "data.held_out": GENERATED,
    "data.shortest": SEQUENCES,
    "data.longest": SEQUENCES,
    "data.symbols": SEQUENCES,
    "data.seed": GENERATED,
    "model.cell": RECURRENT,
    "model.first_state": Concern("recurrent decoders"),
    "model.readout_size": Concern("maxout readouts"),
    "model.self_heads": BLOCKS,
    "model.stack": Concern(
        "recurrent layers above the first", lambda run: _stacks_cells(run.model)
    ),
    "model.norm": BLOCKS,
    "model.positions": BLOCKS,
    "model.feedforward_size": BLOCKS,
    "model.initialization": Concern("new parameters", lambda run: not run.train.initial),
    "model.dropout_kind": Concern("dropout", lambda run: run.model.dropout > 0),
    shorthands.GUIDED_HEAD: Concern(
        f"guided attention, which {shorthands.GUIDED}=1 turns on",
        lambda run: any(isinstance(loss, Guided) for loss in run.train.losses),
    ),
    "train.sampling_steps": Concern(
        "scheduled sampling", lambda run: run.train.scheduled_sampling > 0
    ),
    config.UNITS: Concern("hidden units of scores and windows that do not give their number"),
}


def concerns(name: str, run: Experiment, given: Mapping[str, Any]) -> bool:
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
    return name not in CONCERNS or CONCERNS[name].has(run)


def check(runs: Iterable[tuple[Experiment, Mapping[str, Any]]], names: Iterable[str]) -> None:
    """Refuses options that concern no run.

    Args:
      runs: the options of each run of a command, and those that were given for it.
      names: of the options to check.

    Raises:
      InputError: an option concerns none of the runs.
    """
    runs = list(runs)
    for name in sorted(names):
        if not any(concerns(name, *run) for run in runs):
            raise InputError(f"{name} concerns {CONCERNS[name].what}, and no run here has any")


def unused(run: Experiment, given: Mapping[str, Any]) -> list[str]:
    """The names of options that differ from their default and have no effect.

    Args:
      run: the options of the run.
      given: those that were given, of which some are shorthands.
    """
    options, usual = config.values(run), config.values(Experiment())
    differing = [name for name in options if options[name] != usual[name]]
    # The flag files of earlier versions have all shorthands, most of them with their defaults.
    short = checked(shorthands.KNOWN, {n: v for n, v in given.items() if n in shorthands.KNOWN})
    differing += [name for name, value in short.items() if not shorthands.is_usual(name, value)]
    return [name for name in differing if not concerns(name, run, given)]


def has_units(run: Experiment, given: Mapping[str, Any]) -> bool:
    """Whether the number of hidden units of parts that do not give their own changes the run."""
    told = {name: given[name] for name in config.PARTS if name in given}
    runs = [
        config.experiment(config.merged(config.values(run), told | {config.UNITS: units}))
        for units in (1, 2)
    ]
    return runs[0] != runs[1]


def told(run: Experiment, given: Mapping[str, Any]) -> str:
    """A message that names the options without effect; empty if there are none."""
    short = {name: value for name, value in given.items() if name in shorthands.KNOWN}
    options = config.values(run) | short
    named = config.told({name: options[name] for name in unused(run, given)})
    return f"this run has no use for {named}" if named else ""
