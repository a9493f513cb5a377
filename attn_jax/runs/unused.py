"""Options that have no effect on any run of a call."""

import warnings
from collections.abc import Callable, Iterable, Sequence

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.data.datasets import GENERATED
from attn_jax.data.synthetic import TASKS
from attn_jax.models.choices import options_of


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
    return run.data.name in GENERATED


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
    "data.directory": lambda run: run.data.name != "parallel",
    "data.examples": _is_made,
    "data.held_out": _is_made,
    "data.shortest": _is_task,
    "data.longest": _is_task,
    "data.symbols": _is_task,
    "data.seed": _is_made,
    "model.stack": _stacks_cells,
    "model.initialization": lambda run: not run.train.initial,
    "model.dropout_kind": lambda run: run.model.dropout > 0,
    "train.sampling_steps": lambda run: run.train.scheduled_sampling > 0,
}


def is_used(name: str, run: Experiment) -> bool:
    """Whether an option has an effect on a run."""
    group, _, option = name.rpartition(".")
    if group == "model" and option not in options_of(run.model):
        return False
    return name not in USED_BY or USED_BY[name](run)


def warn(runs: Iterable[Experiment], names: Iterable[str]) -> None:
    """Warns of those options of a call that have no effect on any of its runs."""
    if idle := unused(list(runs), names):
        warnings.warn(f"no run here uses {', '.join(idle)}", stacklevel=4)


def unused(runs: Sequence[Experiment], names: Iterable[str]) -> list[str]:
    """Those options that differ from their defaults in a run, and have no effect on any."""
    usual = config.values(Experiment())
    differing = {n for run in runs for n, v in config.values(run).items() if v != usual[n]}
    return [
        name for name in sorted(differing & {*names}) if not any(is_used(name, run) for run in runs)
    ]
