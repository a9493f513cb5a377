"""Checks before a run starts: that its options exist and fit together."""

import jax
import jax.numpy as jnp

from attn_jax.attention.catalogue import CONTROLS, resolve, score_function
from attn_jax.attention.context import attend_step, begin
from attn_jax.attention.parts import Part, Sizes
from attn_jax.config import Experiment, Model
from attn_jax.data.orders import ORDERS
from attn_jax.data.vocabularies import VOCABULARIES
from attn_jax.errors import InputError, choose, failure
from attn_jax.evaluation.metrics import METRICS, make_bleu
from attn_jax.models.embeddings import EMBEDDINGS, Shared
from attn_jax.models.seq2seq import initialize
from attn_jax.names import choose_with_settings
from attn_jax.own_code import own_modules, own_parts
from attn_jax.tokens import PAD, UNK
from attn_jax.training.step import init_state, train_step
from experiments import flags
from experiments.contracts import check_returns


def check(experiment: Experiment) -> None:
    """Raises InputError if options are unknown or do not fit together, or user code fails."""
    choose(METRICS | {"auto": None}, experiment.train.metric, "metric")
    choose_with_settings(ORDERS, experiment.train.order, "order")
    make_bleu(experiment.data.bleu_tokenizer)
    choose(VOCABULARIES, experiment.data.vocabulary, "vocabulary")
    kind = choose(EMBEDDINGS, experiment.model.embeddings, "kind of embeddings")
    if issubclass(kind, Shared) and experiment.data.vocabulary != "joint":
        raise InputError(
            f"--model.embeddings={experiment.model.embeddings} needs --data.vocabulary=joint"
        )
    attended = experiment.train.guided_alignment or experiment.train.coverage_loss
    if attended and score_function(experiment.model.score) in CONTROLS:
        raise InputError(
            f"--model.score={experiment.model.score} has no weights that could be trained: leave "
            "out --train.guided_alignment and --train.coverage_loss"
        )
    rows = experiment.train.batch_size

    def one_step(rng: jax.Array) -> tuple:
        ids, links = jnp.ones((rows, 3), jnp.int32), jnp.ones((rows, 3, 3))
        state = init_state(initialize(experiment.model, 5, 5, rng), experiment.train)
        return train_step(state, (ids, ids, links), rng, config=experiment.train)

    try:
        check_returns(experiment.model)
        jax.eval_shape(one_step, jax.random.key(0))
        for what in ("score", "window", "normalizer"):
            check_mask(what, getattr(experiment.model, what))
        check_encoder(experiment.model)
    except InputError:
        raise
    except Exception as error:  # whatever a user's own function raises
        own_options = {f"model.{name}": part for name, part in own_parts(experiment.model).items()}
        if not own_options:
            raise
        reason = failure(error, own_modules(experiment.model))
        raise InputError(
            f"{' '.join(flags.as_arguments(own_options))} fails with {reason}"
        ) from error


def check_mask(what: str, name: str) -> None:
    """Raises InputError if the user's own score, window or normalizer depends on masked positions.

    Padded to the length of a longer sentence, a sentence would be translated differently.
    """
    if ":" not in name:
        return
    chosen = resolve(what, name)
    if chosen.traits.score_count > 1:
        return  # it takes several scores, which `dot` does not give
    parameters = {name: jnp.ones(shape) for name, shape in chosen.shapes(Sizes(2, 2, 2)).items()}
    words = [[1.0, 0.0], [0.0, 1.0]]

    def weigh(part: Part, rng: jax.Array | None, padding: list) -> tuple[jax.Array, jax.Array]:
        parts = {"score": "dot", what: part.bound(parameters)}
        keys = values = jnp.array(words + padding)
        mask = jnp.arange(len(keys)) < len(words)
        if what == "score":
            keys = part.keys(keys, parameters)
        memory, weights = begin(mask, **parts), []
        for second in (-0.5, 0.5, -1.0):  # so that words have different scores at each step
            query = jnp.array([1.0, second])
            memory, _, of_step = attend_step(memory, query, keys, values, mask, **parts, rng=rng)
            weights.append(of_step)
        return tuple(jnp.split(jnp.stack(weights), [len(words)], axis=1))

    in_training, in_decoding = (chosen, jax.random.key(0)), (chosen.decoding, None)
    for part, rng in (in_training, in_decoding):
        (low, _), (high, beyond) = (weigh(part, rng, [[at, at]]) for at in (-3.0, 3.0))
        others = [high]
        if rng is None:  # noise may depend on the length
            others.append(weigh(part, rng, [])[0])
        # What is not finite on real positions is told as such at the first step of training.
        same = [jnp.allclose(low, other, equal_nan=True) for other in others]
        if jnp.nan_to_num(beyond).any() or not all(same):
            raise InputError(
                f"--model.{what}={name} gives weight to padding, where its mask is False, or "
                "depends on what is there"
            )


def check_encoder(config: Model) -> None:
    """Raises InputError if the user's own encoder reads padding."""
    if ":" not in config.encoder:
        return
    model = initialize(config, 5, 5, jax.random.key(0))
    words, padding = [UNK] * 3, [PAD] * 2

    @jax.jit
    def read(source: jax.Array) -> tuple:
        annotations, summary = model.encoder(model.words.source(source), source != PAD, None)
        return annotations[:, : len(words)], summary

    alone, padded = (read(jnp.array([source])) for source in (words, words + padding))
    for one, other in zip(*map(jax.tree.leaves, (alone, padded)), strict=True):
        if not jnp.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise InputError(
                f"--model.encoder={config.encoder} depends on padding, where its mask is False: a "
                "sentence would be encoded differently beside a longer one"
            )
