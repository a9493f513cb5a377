"""What a run is trained with, checked before anything is written into its folder."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import optax

from attn_jax.config import Experiment
from attn_jax.data.batches import Batches
from attn_jax.data.datasets import Corpus
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import cutting
from attn_jax.data.sentences import Example
from attn_jax.data.text_checks import (
    check_known,
    check_lengths,
    counts_of,
    seen_in_training,
    unknown_shares,
)
from attn_jax.data.vocabulary import Vocabulary, known
from attn_jax.models.seq2seq import initialize
from attn_jax.records.own_code import own_options
from attn_jax.records.progress import Progress
from attn_jax.runs import folder
from attn_jax.runs.checks import check_step
from attn_jax.runs.materials import initial_parameters, training_pairs, vocabularies
from attn_jax.training import devices, loop, precision, processes
from attn_jax.training.recipe import recipe_of
from attn_jax.training.step import FlatState, init_state


class Ready(NamedTuple):
    """What a run is trained with.

    Attributes:
      source, target: the vocabularies.
      state: the parameters and what else training goes on from.
      progress: how far the run is.
      batches: of the training pairs.
      validation: the examples of the validation, with sentences as their sides.
      rng: the key of dropout and of all else that is random in training.
      about: lines that tell of all this.
    """

    source: Vocabulary
    target: Vocabulary
    state: FlatState
    progress: Progress
    batches: Batches
    validation: Sequence[Example]
    rng: jax.Array
    about: Sequence[str]

    @property
    def step(self) -> int:
        """The number of steps done."""
        return int(self.state.parts.step)


def prepared(workdir: Path, experiment: Experiment, corpus: Corpus) -> Ready:
    """Reads data and checkpoint of a run, or begins a new one; writes nothing.

    Args:
      workdir: the folder of the run.
      experiment: its options.
      corpus: its data.

    Raises:
      InputError: the run cannot begin, or go on, with these options and data.
    """
    config = experiment.train
    precision.check(config.compute, jax.devices()[0])
    text = cut_pairs(corpus.examples("train"), cutting(experiment.data))
    folder.check_content(workdir, corpus)
    source, target = vocabularies(workdir, experiment, text)
    rng_parameters, rng_dropout = jax.random.split(jax.random.key(experiment.seed))
    model = initialize(experiment.model, source.sizes, len(target), rng_parameters)
    state, progress = loop.begin(config, model, workdir)
    done = int(state.parts.step)
    if config.initial and not done:  # when resuming, that run may be gone
        initial = initial_parameters(Path(config.initial), model)
        state = init_state(initial, recipe_of(config))
    splits = ["validation", "test"] if "test" in corpus.splits else ["validation"]
    held_out = {split: corpus.sentences(split, source, target) for split in splits}
    for split, examples in held_out.items():
        check_lengths(split, examples, experiment.data.max_length)
    pairs = training_pairs(experiment, corpus.examples("train"), text, source, target)
    counts = pairs.counts()
    if config.initial:
        check_known(config.initial, counts, source, target)
    batches = Batches(pairs, config, experiment.seed, processes.share)
    if own_options(experiment):  # which may need longer sentences, or not allow such long ones
        for shape in {batches.shapes[0], batches.shapes[-1]}:
            check_step(experiment, shape)

    def about() -> Iterator[str | None]:
        yield (
            f"{len(pairs)} training pairs ({pairs.left_out} left out, empty or of over "
            f"{config.max_length} tokens), {known(source)} source and {known(target)} target "
            f"tokens known, {optax.tree.size(model)} parameters"
        )
        yield batches.summary()
        of_splits = {split: counts_of(held_out[split], source, target) for split in splits}
        yield unknown_shares({"training": counts} | of_splits, source, target)
        yield from seen_in_training(text, held_out)
        yield devices.summary(config)
        yield precision.advice(config.compute, jax.devices()[0], experiment.model.hidden_size)

    lines = list(filter(None, about()))
    validation = held_out["validation"]
    return Ready(source, target, state, progress, batches, validation, rng_dropout, lines)
