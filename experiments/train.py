"""Trains one model and evaluates it: `./launch.sh train --workdir=runs/mine --data.name=reverse`.

The same command again resumes from the last checkpoint; a larger --train.steps extends the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import optax
from absl import flags as absl_flags

from attn_jax import journal, run_files, strict_json
from attn_jax.config import Experiment
from attn_jax.data.cuts import CutText
from attn_jax.data.datasets import Corpus, open_corpus
from attn_jax.data.links import links_of
from attn_jax.data.pairs import Example
from attn_jax.data.pipeline import Batches
from attn_jax.data.training_pairs import TrainingPairs
from attn_jax.data.vocabularies import VOCABULARIES, kinds
from attn_jax.data.vocabulary import Vocabulary
from attn_jax.errors import InputError, choose
from attn_jax.files import reading
from attn_jax.loading import (
    best_checkpoint,
    check_record,
    experiment_of,
    load_parameters,
    load_vocabularies,
    located,
)
from attn_jax.models.seq2seq import Seq2Seq, initialize
from attn_jax.own_code import check_copies, forget_code, keep_code, own_modules, own_parts
from attn_jax.tokens import SPECIALS
from attn_jax.training import devices, loop, precision
from attn_jax.training.checkpoint import CheckpointMismatch
from attn_jax.training.fallback import set_aside
from attn_jax.training.saving import try_place
from attn_jax.training.step import init_state
from attn_jax.training.validations import disagreement
from experiments import flags, folder, unused
from experiments.checks import check, check_step
from experiments.evaluation import evaluate_split
from experiments.examples import (
    check_known,
    check_lengths,
    counts_of,
    seen_in_training,
    unknown_shares,
)
from experiments.flags import FLAGS
from experiments.printing import best_step, print_evaluation
from experiments.program import OF_TRAINING, run
from experiments.validation import compared, criterion_of, validator


def main() -> None:
    """Trains, then evaluates on the test split if there is one."""
    workdir = Path(FLAGS.workdir)
    given = flags.given()
    with folder.alone(workdir):
        if FLAGS["train.fallback"].value:
            set_aside(workdir)
        experiment = folder.settle(workdir, given)
        check(experiment)
        folder.check_code(workdir, own_modules(experiment.model))
        folder.tell_inherited(folder.inherited(experiment, given))
        done, asked = experiment.train.steps, given.get("train.steps", experiment.train.steps)
        if asked < done:
            print(f"the run has done {done} steps already, more than --train.steps={asked}")
        corpus = open_corpus(experiment.data)
        train(workdir, experiment, corpus, given)
    if "test" in corpus.splits:
        file = run_files.evaluation(workdir, "test")
        if not file.is_file():
            evaluate_split(workdir, corpus, "test", {})
        with reading(file, ": remove it, and the same command evaluates the run again"):
            evaluation = strict_json.loads(file.read_text("utf-8"))
            print_evaluation("test", evaluation, best_step(evaluation))
    else:
        print("no test split: the run is not evaluated, and reports leave it out")


def train(
    workdir: Path,
    experiment: Experiment,
    corpus: Corpus,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Trains an experiment that passed `check`; finds all other errors before it writes files.

    Args:
      workdir: the folder of the run.
      experiment: its options.
      corpus: its data.
      given: the options on the command line, of which those without effect are named.
    """
    folder.check_content(workdir, corpus)
    config, device = experiment.train, jax.devices()[0]
    precision.check(config.compute, device)
    ways = [kind.pretokens for kind in kinds(experiment.data)]
    splits = ["validation", "test"] if "test" in corpus.splits else ["validation"]
    text, others = corpus.text("train", *ways), {one: corpus.text(one, *ways) for one in splits}
    source, target = vocabularies(workdir, experiment, corpus, text)
    rng_parameters, rng_dropout = jax.random.split(jax.random.key(experiment.seed))
    model = initialize(experiment.model, len(source), len(target), rng_parameters)
    state, progress = loop.begin(config, model, workdir)
    step = int(state.parts.step)
    if config.initial and not step:  # not when resuming: that run may be gone by then
        state = init_state(initial_parameters(Path(config.initial), model), config)
    held_out = {split: corpus.sentences(split, source, target) for split in splits}
    validation = held_out["validation"]
    for split, examples in held_out.items():
        check_lengths(split, examples, experiment.data.max_length)
    pairs = training_pairs(experiment, corpus.examples("train"), text, source, target)
    counts = pairs.counts()
    if config.initial:
        check_known(config.initial, counts, source, target)
    batches = Batches(pairs, config, experiment.seed)
    if own_parts(experiment.model):  # which may need longer sentences, or not allow such long ones
        for shape in {batches.shapes[0], batches.shapes[-1]}:
            check_step(experiment, shape)
    parameters = optax.tree.size(model)
    about = [
        f"{len(pairs)} training pairs ({pairs.left_out} left out, empty or of over "
        f"{config.max_length} tokens), "
        f"{len(source) - len(SPECIALS)} source and {len(target) - len(SPECIALS)} target tokens "
        f"known, {parameters} parameters",
        batches.summary(),
        unknown_shares(
            {"training": counts}
            | {split: counts_of(held_out[split], source, target) for split in splits}
        ),
        *seen_in_training(text, others),
        unused.told(experiment, given),
        devices.summary(config),
        precision.advice(config.compute, device),
    ]
    more = not progress.finished(step, config)
    if more:
        check_copies(workdir, experiment.model)
        forget_code(workdir, experiment.model)
    if more or experiment != experiment_of(workdir):  # else it may be a folder to read only
        folder.check_writable(workdir)
        folder.record(workdir, experiment, corpus, source, target)
    print("\n".join(filter(None, about)), flush=True)
    if not more:
        print(f"nothing is left to train: the run has finished at step {step}", flush=True)
        return
    try_place(workdir)  # after the record: a kill meanwhile leaves a run that can begin again
    keep_code(workdir, experiment.model)
    folder.forget_evaluations(workdir)
    loop.fit(
        config,
        state,
        progress,
        batches.from_step,
        validator(validation, source, target, experiment.data),
        workdir,
        rng=rng_dropout,
        criterion=criterion_of(experiment, validation),
    )
    folder.forget_evaluations(workdir)  # that other processes may have written in the meantime
    validations, kept = journal.read(run_files.journal(workdir)), best_checkpoint(workdir).name
    told = disagreement(validations, compared(experiment, validation), kept)
    if told:
        print(told, flush=True)


def vocabularies(
    workdir: Path, experiment: Experiment, corpus: Corpus, text: CutText
) -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of the run, of the run it starts from, or of the training text."""
    if folder.has_begun(workdir):
        return load_vocabularies(workdir)
    initial, _ = located(Path(experiment.train.initial))
    if experiment.train.initial and run_files.vocabulary(initial, "target").is_file():
        check_tokens(initial, experiment)
        return load_vocabularies(initial)
    build = choose(VOCABULARIES, experiment.data.vocabulary, "vocabulary")
    return build(text, corpus.examples("train"), experiment.data)


def initial_parameters(place: Path, model: Seq2Seq) -> Seq2Seq:
    """The model with the parameters of the run or checkpoint to start from."""
    initial, checkpoint = located(place)
    check_record(initial, checkpoint)
    try:
        return load_parameters(initial, model, checkpoint)
    except CheckpointMismatch as error:
        file = run_files.flags(initial)
        if not file.is_file():
            raise
        hint = f"--flagfile={file}, before other flags, gives the model of that run"
        raise CheckpointMismatch(f"{error}; {hint}") from error


def check_tokens(initial: Path, experiment: Experiment) -> None:
    """Raises InputError if the run to start from has other tokens or vocabularies."""
    theirs, ours = experiment_of(initial).data, experiment.data
    sizes = ("words", "min_count", "subwords", "character_coverage")
    used = (name for name in sizes if unused.USES[f"data.{name}"](experiment))
    for name in ("source_level", "target_level", "vocabulary", *used):
        if getattr(theirs, name) != getattr(ours, name):
            raise InputError(
                f"the run in {initial} has --data.{name}={getattr(theirs, name)}, and this one "
                f"{getattr(ours, name)}: parameters need the same tokens"
            )


def training_pairs(
    experiment: Experiment,
    examples: Sequence[Example],
    text: CutText,
    source: Vocabulary,
    target: Vocabulary,
) -> TrainingPairs:
    """The pairs as ids, without those that are too long or have a side without any token.

    Raises:
      InputError: no pair is left; attention is to be guided, and links are missing or wrong; or
        links are given, and attention is not to be guided.
    """
    guided, max_length = experiment.train.guided_alignment, experiment.train.max_length
    if experiment.data.links and not guided:
        raise InputError("--data.links guide attention only with --train.guided_alignment=1 or so")
    links = links_of(experiment.data, examples, text.lengths()) if guided else None
    pairs = TrainingPairs(text, source, target, max_length, links)
    if not len(pairs):
        raise InputError(
            f"every training pair is empty or longer than --train.max_length={max_length} tokens"
        )
    return pairs


if __name__ == "__main__":
    flags.define_workdir("folder of the run: new, or one to go on with")
    flags.define_experiment()
    absl_flags.DEFINE_bool(
        "train.fallback", False, "set damaged checkpoints aside, and go on from the last intact one"
    )
    run(main, OF_TRAINING)
