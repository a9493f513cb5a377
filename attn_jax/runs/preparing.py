"""What a run is trained with, checked before anything is written into its folder."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import optax

from attn_jax.config import Experiment
from attn_jax.data.batches import Batches, TrainingPairs
from attn_jax.data.datasets import Corpus
from attn_jax.data.links import links_of
from attn_jax.data.pretokens import CutText, cut_pairs
from attn_jax.data.run_vocabularies import VOCABULARIES, cutting
from attn_jax.data.sentences import Example
from attn_jax.data.text_checks import (
    check_known,
    check_lengths,
    counts_of,
    seen_in_training,
    unknown_shares,
)
from attn_jax.data.vocabulary import Vocabulary, known
from attn_jax.errors import InputError, choose
from attn_jax.models.seq2seq import Seq2Seq, initialize
from attn_jax.recipe import precision
from attn_jax.records import manifest, run_files
from attn_jax.records.own_code import own_options
from attn_jax.records.progress import Progress
from attn_jax.runs import folder
from attn_jax.runs.checks import check_step, is_used
from attn_jax.training import devices, loop, processes
from attn_jax.training.checkpoints import CheckpointMismatch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import FlatState, init_state
from attn_jax.translation.loading import (
    experiment_of,
    load_parameters,
    load_vocabularies,
    located,
)


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
    # First, since the pass over the text makes the digest of its content.
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
    examples = corpus.examples("train")
    pairs = training_pairs(experiment, examples, text, source, target, copying=model.copies)
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


def vocabularies(
    workdir: Path, experiment: Experiment, text: CutText
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the run, of the run it starts from, or of the training text."""
    if folder.has_begun(workdir):
        return load_vocabularies(workdir)
    initial, _ = located(Path(experiment.train.initial))
    if experiment.train.initial and run_files.vocabulary(initial, "target").is_file():
        check_tokens(initial, experiment)
        return load_vocabularies(initial)
    build = choose(VOCABULARIES, experiment.data.vocabulary, "vocabulary")
    return build(text, experiment.data)


def initial_parameters(place: Path, model: Seq2Seq) -> Seq2Seq:
    """The model with the parameters of the run or checkpoint to start from."""
    initial, checkpoint = located(place)
    manifest.check(initial)
    try:
        return load_parameters(initial, model, checkpoint)
    except CheckpointMismatch as error:
        file = run_files.flags(initial)
        if not file.is_file():
            raise
        hint = f"the model options in {file} are those of that run"
        raise CheckpointMismatch(f"{error}; {hint}") from error


def check_tokens(initial: Path, experiment: Experiment) -> None:
    """Raises InputError if the run to start from has other tokens or vocabularies."""
    theirs, ours = experiment_of(initial).data, experiment.data
    sizes = ("words", "min_count", "subwords", "character_coverage")
    used = (name for name in sizes if is_used(f"data.{name}", experiment))
    for name in ("source_level", "target_level", "vocabulary", *used):
        if getattr(theirs, name) != getattr(ours, name):
            raise InputError(
                f"the run in {initial} has data.{name}={getattr(theirs, name)}, and this one "
                f"{getattr(ours, name)}: parameters need the same tokens"
            )


def training_pairs(
    experiment: Experiment,
    examples: Iterable[Example],
    text: CutText,
    source: Vocabulary,
    target: Vocabulary,
    copying: bool,
) -> TrainingPairs:
    """The pairs as ids, without those that are too long or have a side without any token.

    Raises:
      InputError: no pair is left; a loss needs links, and they are missing or wrong; or links are
        given, and no loss needs them.
    """
    guided = any(loss.needs_links for loss in experiment.train.losses)
    max_length = experiment.train.max_length
    if experiment.data.links and not guided:
        raise InputError("data.links guide attention only with train.losses=guided or so")
    links = links_of(experiment.data, examples, text.lengths()) if guided else None
    pairs = TrainingPairs(text, source, target, max_length, links, copying)
    if not len(pairs):
        raise InputError(
            f"every training pair is empty or longer than train.max_length={max_length} tokens"
        )
    return pairs
