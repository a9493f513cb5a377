"""Checks before a run starts: that its options exist and fit together."""

import contextlib
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp

from attn_jax import config
from attn_jax.attention.mechanism import KINDS
from attn_jax.attention.sources import Combined
from attn_jax.checks import losses
from attn_jax.checks.contracts import check_returns, untrained
from attn_jax.checks.mechanisms import problem_at_start
from attn_jax.config import Experiment, Model
from attn_jax.data.orders import Shape
from attn_jax.data.run_vocabularies import VOCABULARIES
from attn_jax.decoding.batches import SHORTEST
from attn_jax.errors import InputError, choose, failure
from attn_jax.evaluation.metrics import METRICS, make_bleu
from attn_jax.models.embeddings import EMBEDDINGS, Shared
from attn_jax.models.heads import Sizes
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records.own_code import import_modules, imported_late, own_modules, own_options
from attn_jax.settings.grammar import own_names
from attn_jax.tokens import PAD, UNK, Batch
from attn_jax.training.optimizer import Linear
from attn_jax.training.recipe import recipe_of
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
                "two sources: give model.sources=flat, hierarchical or concatenated"
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
    if experiment.train.losses and not experiment.model.mixing.non_negative:
        named = "+".join(loss.brief() for loss in experiment.train.losses)
        raise InputError(
            f"model.mixing={experiment.model.mixing.brief()} may give negative weights: leave out "
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
        batch = Batch(*ids, links=jnp.ones((rows, target, source)))
        state = init_state(untrained(experiment.model, rng), recipe)
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
