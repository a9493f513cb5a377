"""How long a step of training and a validation take, measured without writing anything."""

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from attn_jax import config as options_of
from attn_jax.config import Options
from attn_jax.data.datasets import open_corpus
from attn_jax.data.pairs import Example
from attn_jax.data.pipeline import Batches
from attn_jax.data.run_vocabularies import cutting
from attn_jax.evaluation.assess import assess
from attn_jax.files import path_of
from attn_jax.models.seq2seq import initialize
from attn_jax.runs import folder
from attn_jax.runs.checks import check
from attn_jax.runs.materials import training_pairs, vocabularies
from attn_jax.startup import start_training
from attn_jax.training import processes
from attn_jax.training.devices import first_replica, make_mesh, replicate, split
from attn_jax.training.recipe import recipe_of
from attn_jax.training.step import init_state, train_step
from attn_jax.training.throughput import Throughput
from attn_jax.translation.loading import Place
from attn_jax.translation.translator import Translator

# How a program says it to a sweep that has started it.
SAID = "a step takes {:.6f} s, and a validation about {:.3f} s; compilation took {:.1f} s"
FOUND = re.compile(
    r"^a step takes ([0-9.]+) s, and a validation about ([0-9.]+) s; compilation took ([0-9.]+) s",
    re.MULTILINE,
)
# What JAX measures: compilations, of which some were only reading from the cache.
COMPILED = "/jax/core/compile/backend_compile_duration"
READ = "/jax/compilation_cache/cache_retrieval_time_sec"

STEPS = 30  # of which those are measured whose shape has been compiled before
SENTENCES = 128  # of the validation that are translated


class Pace(NamedTuple):
    """How fast a run is, in seconds without compilation."""

    step: float  # the median
    validation: float
    compilation: float  # all of it, but for programs that were in the cache


def pace(options: Options, workdir: Place) -> Pace:
    """How long a step and a validation of the run take that `train` would make.

    Args:
      options: as in `train`.
      workdir: as in `train`; nothing is written there.

    Raises:
      InputError: an option, the data or the folder cannot be used.
    """
    start_training()
    with compilations() as compiled:
        step, validation = _measured(options, path_of(workdir))
    return Pace(step, validation, max(0.0, sum(compiled)))


@contextlib.contextmanager
def compilations() -> Iterator[list[float]]:
    """Seconds of compilation, and, negative, those of which a program was only read."""
    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in (COMPILED, READ):
            seconds.append(duration_secs if event == COMPILED else -duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def _measured(options: Options, workdir: Path) -> tuple[float, float]:
    """The durations of a step and of a validation."""
    experiment = folder.settle(workdir, options_of.given(options))
    check(experiment)
    config = experiment.train
    corpus = open_corpus(experiment.data)
    text = corpus.text("train", *cutting(experiment.data))
    source, target = vocabularies(workdir, experiment, corpus, text)
    pairs = training_pairs(experiment, corpus.examples("train"), text, source, target)
    model = initialize(experiment.model, source.sizes, len(target), jax.random.key(0))
    recipe, mesh = recipe_of(config), make_mesh(config)
    state, rng, throughput = init_state(model, recipe), jax.random.key(0), Throughput()
    if mesh is not None:
        state, rng = replicate((state, rng), mesh)
    following = Batches(pairs, config, experiment.seed, processes.share).from_step(0)
    for _ in range(STEPS):
        batch = next(following)
        throughput.reset()
        throughput.count(batch.source, batch.target)
        if mesh is not None:
            batch = split(batch, mesh)
        state, loss = train_step(state, batch, rng, recipe=recipe, mesh=mesh)
        jax.block_until_ready(loss)
        throughput.close()
    sentences = corpus.sentences("validation", source, target)
    shown = state if mesh is None else first_replica(state)
    translator = Translator([shown.result], source, target, experiment.data.max_length)
    tokenizer = experiment.data.bleu_tokenizer
    return 1 / throughput.rates()[0], _validation(translator, sentences, tokenizer)


def _validation(translator: Translator, sentences: Sequence[Example], tokenizer: str) -> float:
    """The duration of a validation, from that of some of its sentences.

    A model that has learnt next to nothing does not end its sentences: they end here where the
    longest reference does.
    """
    some = sentences[:: -(-len(sentences) // SENTENCES)]
    longest = max(len(example.target.tokens) for example in some)
    search: dict[str, Any] = {"max_length": longest + 1}
    took = 0.0
    for _ in range(2):  # at first, it compiles
        began = time.perf_counter()
        assess(translator, some, tokenizer, search)
        took = time.perf_counter() - began
    return took * len(sentences) / len(some)
