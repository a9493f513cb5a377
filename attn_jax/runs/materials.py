"""What a run is trained on and starts from: vocabularies, pairs of ids, parameters."""

from collections.abc import Iterable
from pathlib import Path

from attn_jax.config import Experiment
from attn_jax.data.batches import TrainingPairs
from attn_jax.data.links import links_of
from attn_jax.data.pretokens import CutText
from attn_jax.data.run_vocabularies import VOCABULARIES
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError, choose
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import manifest, run_files
from attn_jax.runs import folder, unused
from attn_jax.training.checkpoints import CheckpointMismatch
from attn_jax.translation.loading import (
    experiment_of,
    load_parameters,
    load_vocabularies,
    located,
)


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
    used = (name for name in sizes if unused.is_used(f"data.{name}", experiment))
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
    pairs = TrainingPairs(text, source, target, max_length, links)
    if not len(pairs):
        raise InputError(
            f"every training pair is empty or longer than train.max_length={max_length} tokens"
        )
    return pairs
