"""Trains one model in a folder, and evaluates it."""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from attn_jax import config as options_of
from attn_jax.config import Experiment, Options
from attn_jax.data.datasets import Corpus, open_corpus
from attn_jax.errors import choose
from attn_jax.evaluation.assess import Assessment
from attn_jax.files import path_of
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import journal, manifest, provenance, run_files, states
from attn_jax.records.own_code import check_copies, forget_code, keep_code, own_modules
from attn_jax.reporting.printing import best_step, print_evaluation
from attn_jax.runs import folder
from attn_jax.runs.checks import check, warn_of_unused
from attn_jax.runs.evaluation import best_of, evaluate_split
from attn_jax.runs.measuring import COMPILED, compilations
from attn_jax.runs.preparing import prepared
from attn_jax.runs.validation import PICTURED, Events, compared, criterion_of, validator
from attn_jax.startup import start_training
from attn_jax.training import devices, loop, processes
from attn_jax.training.checkpoints import digest, named_leaves, set_aside, try_place
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import FlatState
from attn_jax.training.validations import disagreement
from attn_jax.translation.loading import Place, best_checkpoint, experiment_of, load
from attn_jax.translation.translator import Translator

Listener = Callable[[dict[str, Any]], None]  # what hears of each validation, as the journal has it
StepListener = Callable[[int, float], None]  # what hears of steps done, and the loss of the last


def train(
    options: Options,
    workdir: Place,
    *,
    on_record: Listener | None = None,
    on_step: StepListener | None = None,
    fallback: bool = False,
    evaluate_on: Collection[str] = ("test",),
) -> Translator:
    """Trains one model, or goes on with its training, then evaluates it.

    The same call again resumes from the last checkpoint; a larger `train.steps` extends the run.
    Another learning rate, schedule, warm-up, batch size or optimizer holds from the step done on.

    After `jax.distributed.initialize`, all processes train one model: each of them makes the same
    call, with a folder that all of them read. The first one writes there.

    Args:
      options: an experiment, or options by name, such as `{"data.name": "copy", "model.score":
        Dot()}`; those that are left out are as in the folder, or the defaults in a new one.
      workdir: the folder of the run.
      on_record: is called after each validation with its record: `step`, `train_loss`,
        `valid_perplexity` and the like. Of several processes, in the first one.
      on_step: is called every 20 steps with the number of steps done and the loss of the last. Of
        several processes, in the first one.
      fallback: whether to set damaged checkpoints aside, and go on from the last intact one.
      evaluate_on: the splits on which it is evaluated at the end, those that the data have.

    Returns:
      The model with the parameters of the best checkpoint.

    Raises:
      InputError: an option, the data or the folder cannot be used, training diverges, or JAX is
        configured for 64 bits.
      KeyboardInterrupt: it was interrupted; it has saved, and the same call goes on.
    """
    for split in evaluate_on:
        choose(dict.fromkeys(run_files.SPLITS), split, "split")
    start_training()
    workdir, given = path_of(workdir), options_of.given(options)
    with processes.only_first_tells(), ExitStack() as stack:

        def open_folder() -> None:
            stack.enter_context(folder.alone(workdir))
            if fallback:
                set_aside(workdir)

        processes.by_first(open_folder)
        with processes.together():
            experiment = folder.settle(workdir, given)
            check(experiment)
            devices.make_mesh(experiment.train)  # checks that processes can share a batch
            folder.check_code(workdir, own_modules(experiment))
            folder.tell_inherited(folder.inherited(experiment, given))
            folder.tell_changes(workdir, experiment)
            done, asked = experiment.train.steps, given.get("train.steps", experiment.train.steps)
            if int(asked) < done:
                print(f"the run has done {done} steps already, more than train.steps={asked}")
            corpus = open_corpus(experiment.data)
        train_alone(workdir, experiment, corpus, given, on_record, on_step)
        stack.close()
        splits, began = [one for one in evaluate_on if one in corpus.splits], time.monotonic()
        for split in splits:
            evaluate_once(workdir, corpus, split)
        if not {"test"} & {*evaluate_on} & {*corpus.splits}:
            why = "not asked for" if "test" in corpus.splits else "no test split"
            print(f"{why}: the run is not evaluated on a test, and reports leave it out")
        if processes.is_first():
            took = {"evaluation": time.monotonic() - began} if splits else {}
            states.finish(workdir, **took)
        return load(best_of(workdir))


def evaluate_once(workdir: Path, corpus: Corpus, split: str) -> None:
    """Evaluates a run on a split, unless that has been done, and prints the result."""
    file = run_files.evaluation(workdir, split)
    if processes.agreed(not file.is_file()):
        evaluate_split(workdir, corpus, split, {})
    if processes.is_first():
        advice = "remove it, and the same command evaluates the run again"
        evaluation = manifest.measured(workdir, file, advice)
        print_evaluation(split, evaluation, best_step(evaluation))


def train_alone(
    workdir: Path,
    experiment: Experiment,
    corpus: Corpus,
    given: Mapping[str, Any],
    on_record: Listener | None = None,
    on_step: StepListener | None = None,
) -> None:
    """Trains an experiment that passed `check`; finds all other errors before it writes files.

    Args:
      workdir: the folder of the run, in which no other process trains.
      experiment: its options.
      corpus: its data.
      given: the options of the call, of which it warns if they have no effect.
      on_record: as in `train`.
      on_step: as in `train`.
    """
    with processes.together():
        ready = prepared(workdir, experiment, corpus)
    processes.check_same(lambda: _what_is_trained(experiment, corpus, ready.state))
    config, step = experiment.train, ready.step
    more = not ready.progress.finished(step, config)

    def record() -> None:
        if more:
            check_copies(workdir, experiment)
            forget_code(workdir, experiment)
        if more or experiment != experiment_of(workdir):  # else it may be a folder to read only
            folder.check_writable(workdir)
            folder.record(workdir, experiment, corpus, ready.source, ready.target)

    processes.by_first(record)
    with processes.together():
        folder.check_seen(workdir)
    warn_of_unused([experiment], given)
    print("\n".join(ready.about), flush=True)
    if not more:
        print(f"nothing is left to train: the run has finished at step {step}", flush=True)
        return

    def make_ready() -> None:
        try_place(workdir)  # after the record: a kill meanwhile leaves a run that can begin again
        keep_code(workdir, experiment)
        folder.forget_evaluations(workdir)

    processes.by_first(make_ready)
    validation = ready.validation
    measure = validator(validation, ready.source, ready.target, experiment.data, PICTURED)
    with ExitStack() as stack:
        note: Callable[..., object] = dict  # in processes that record nothing
        if processes.is_first():
            stack.enter_context(provenance.session(workdir, step))
            note = stack.enter_context(states.kept(workdir))
        events = stack.enter_context(closing(Events(workdir, experiment, step)))

        def step_done(step: int, loss: float) -> None:
            note(step=step, loss=loss)
            if on_step:
                on_step(step, loss)

        def validated(model: Seq2Seq) -> Assessment:
            began = time.monotonic()
            with compilations() as compiled:
                assessment = measure(model)
            # Without what only the first validation does, since others are to be expected by it.
            note(validation=time.monotonic() - began - compiled[COMPILED])
            return assessment

        def hear(record: dict[str, Any]) -> None:
            events.write(record)
            if on_record:
                on_record(record)

        loop.fit(
            config,
            recipe_of(config),
            ready.state,
            ready.progress,
            ready.batches.from_step,
            events.measured(validated),
            workdir,
            rng=ready.rng,
            criterion=criterion_of(experiment, validation),
            on_record=hear,
            on_step=step_done,
        )
    if not processes.is_first():
        return
    folder.forget_evaluations(workdir)  # that other processes may have written in the meantime
    validations, kept = journal.read(workdir), best_checkpoint(workdir).name
    told = disagreement(validations, compared(experiment, validation), kept)
    if told:
        print(told, flush=True)


def _what_is_trained(experiment: Experiment, corpus: Corpus, state: FlatState) -> dict[str, Any]:
    """What must be the same in all processes that train together."""
    options = options_of.texts(experiment)
    return {
        **{name: value for name, value in options.items() if name not in options_of.PLACES},
        "data": corpus.content,
        "steps done": int(state.parts.step),
        "parameters": digest(named_leaves(state.result)),
    }
