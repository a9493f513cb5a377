"""Checks before a run starts: that its options exist, fit together, and have an effect."""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp

from attn_jax import config
from attn_jax.attention.mechanism import KINDS
from attn_jax.attention.sources import Combined
from attn_jax.checks import losses
from attn_jax.checks.contracts import check_returns, untrained
from attn_jax.checks.mechanisms import problem_at_start
from attn_jax.config import Experiment, Model
from attn_jax.data.datasets import GENERATED
from attn_jax.data.run_vocabularies import VOCABULARIES
from attn_jax.data.synthetic import TASKS
from attn_jax.decoding.batches import SHORTEST
from attn_jax.errors import InputError, choose, failure
from attn_jax.evaluation.metrics import METRICS, make_bleu
from attn_jax.models.choices import options_of
from attn_jax.models.embeddings import EMBEDDINGS, Shared
from attn_jax.models.heads import Sizes
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.recipe.optimizer import Linear
from attn_jax.recipe.orders import Shape
from attn_jax.records.own_code import import_modules, imported_late, own_modules, own_options
from attn_jax.settings.grammar import own_names
from attn_jax.tokens import PAD, UNK, Batch, Copyable
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step


def check(experiment: Experiment) -> None:
    """Raises InputError if options are unknown or do not fit together, or user code fails.

    User code is called with arrays of the sizes that the run has, and of the shortest sentences.
    """
    import_modules(experiment.model)
    schedule, steps = experiment.train.schedule, experiment.train.steps
    if isinstance(schedule, Linear) and steps > schedule.until:
        raise InputError(
            f"train.schedule={schedule} is 0 from there on, before train.steps={steps}: give "
            f"train.schedule=linear(until={steps})"
        )
    choose(METRICS | {"auto": None}, experiment.train.metric, "metric")
    make_bleu(experiment.data.bleu_tokenizer)
    choose(VOCABULARIES, experiment.data.vocabulary, "vocabulary")
    sources, attended = experiment.data.sources, experiment.model.sources
    if attended.count != sources:
        raise InputError(
            f"model.sources={attended.brief()} attends to {attended.count}, and the data have "
            + (
                "two sources: give model.sources=flat, hierarchical, concatenated or gated"
                if sources == 2
                else "one source: name a second by data.columns=1,2,3 or data.second_source"
            )
        )
    kind = choose(EMBEDDINGS, experiment.model.embeddings, "kind of embeddings")
    if issubclass(kind, Shared) and experiment.data.vocabulary != "joint":
        raise InputError(
            f"model.embeddings={experiment.model.embeddings} needs data.vocabulary=joint"
        )
    if experiment.train.losses and experiment.model.score.is_control:
        named = "+".join(loss.brief() for loss in experiment.train.losses)
        raise InputError(
            f"model.score={experiment.model.score.brief()} has no weights that could be trained: "
            f"leave out train.losses={named}"
        )
    model = experiment.model
    for name, part in ("mixing", model.mixing), ("normalizer", model.mechanism.normalizer):
        if experiment.train.losses and not part.non_negative:
            named = "+".join(loss.brief() for loss in experiment.train.losses)
            raise InputError(
                f"model.{name}={part.brief()} may give negative weights: leave out "
                f"train.losses={named}"
            )
    imported = {*sys.modules}
    with _own_failures(experiment):
        check_returns(experiment.model)
        model = check_step(experiment, Shape(SHORTEST, SHORTEST))
        if late := own_options(experiment) and imported_late(imported):
            raise InputError(
                f"{' and '.join(late)} must be imported at the top of your module: a function that "
                "does so when it is called makes arrays of it part of what JAX traces"
            )
        levels = {experiment.data.source_level, experiment.data.target_level}
        if model.copies and len(levels) > 1:
            raise InputError(
                f"model.readout={experiment.model.readout} copies source tokens, which are not "
                "of the kind of target tokens: give both one level, not "
                f"{' and '.join(sorted(levels))}"
            )
        for sizes in dict.fromkeys(attention.projections.sizes for attention in model.attentions):
            check_parts(experiment.model, sizes)
        check_encoder(experiment.model)
        check_losses(experiment)


def check_step(experiment: Experiment, shape: Shape) -> Seq2Seq:
    """The abstract value of the model after a training step on sentences of a shape.

    Raises:
      InputError: options are unknown or do not fit together, or user code fails.
    """
    rows, (source, target) = experiment.train.batch_size, shape
    recipe = recipe_of(experiment.train)

    def one_step(rng: jax.Array) -> tuple:
        ids = jnp.ones((rows, source), jnp.int32), jnp.ones((rows, target), jnp.int32)
        model = untrained(experiment.model, rng)
        if model.copies:
            ids = Copyable(ids[0], ids[0]), ids[1]
        batch = Batch(*ids, links=jnp.ones((rows, target, source)))
        state = init_state(model, recipe)
        return train_step(state, batch, rng, recipe=recipe)

    with _own_failures(experiment):
        state, _ = jax.eval_shape(one_step, jax.random.key(0))
    return state.parts.model


@contextlib.contextmanager
def _own_failures(experiment: Experiment) -> Iterator[None]:
    """Raises InputError for whatever the user's own code raises, with the line that it comes from.

    What is raised although no code is the user's own stays as it is.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        own = own_options(experiment)
        if not own:
            raise
        reason = failure(error, own_modules(experiment))
        raise InputError(f"{config.told(own)} fails with {reason}") from error


def check_parts(config: Model, sizes: Sizes) -> None:
    """Raises InputError if a part of a mechanism of the user's own is wrong.

    Args:
      config: the parts; those that are not the user's own are not checked.
      sizes: of what the parts of a head see in the model.
    """
    others = {
        "values": (config.hidden_size, config.annotation_size),
        "gate": (config.hidden_size, sizes.C),
    }
    parts = [(kind, getattr(config, kind)) for kind in (*KINDS, "mixing")]
    if isinstance(config.sources, Combined):
        parts += [("sources", config.sources.score), ("sources", config.sources.normalizer)]
    for kind, part in parts:
        seen = others.get(kind, (sizes.Q, sizes.D))
        if not own_names(str(part)):
            continue
        if problem := problem_at_start(part, *seen, SHORTEST, config.embedding_size):
            raise InputError(f"model.{kind}={getattr(config, kind)}: {problem}")


def check_losses(experiment: Experiment) -> None:
    """Raises InputError if a loss of the user's own is wrong."""
    for loss in experiment.train.losses:
        if own_names(str(loss)) and (problem := losses.problem_at_start(loss)):
            raise InputError(f"train.losses={loss}: {problem}")


def check_encoder(config: Model) -> None:
    """Raises InputError if the user's own encoder reads padding."""
    if not own_names(config.encoder):
        return
    model = untrained(config, jax.random.key(0))
    words, padding = [UNK] * 3, [PAD] * 2

    @jax.jit
    def read(source: jax.Array) -> tuple:
        vectors = model.words.source_vectors(source)
        annotations, summary = model.encoder(vectors, source != PAD, None)
        return annotations[:, : len(words)], summary

    alone, padded = (read(jnp.array([source])) for source in (words, words + padding))
    for one, other in zip(*map(jax.tree.leaves, (alone, padded)), strict=True):
        if not jnp.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise InputError(
                f"model.encoder={config.encoder} depends on padding, where its mask is False: a "
                "sentence would be encoded differently beside a longer one"
            )


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


def warn_of_unused(runs: Iterable[Experiment], names: Iterable[str]) -> None:
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
