"""The training loop: steps, validations, checkpoints, and resuming."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
from rich.console import Console

from attn_jax import facts, journal, run_files
from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.progress import Criterion, Progress
from attn_jax.training.checkpoint import Checkpoints
from attn_jax.training.devices import first_replica, make_mesh, replicate
from attn_jax.training.progress_bar import progress_bar
from attn_jax.training.recipe import recipe_of
from attn_jax.training.saving import WritableCheckpoints
from attn_jax.training.step import FlatState, init_state, resume, train_step
from attn_jax.training.throughput import Throughput
from attn_jax.training.validations import diverged, record_of, summary, warnings

LOOK_EVERY = 20  # steps between reads of the loss, which stall the device


def begin(config: Train, model: Seq2Seq, workdir: Path) -> tuple[FlatState, Progress]:
    """The state and progress of the last checkpoint in a workdir, or the initial ones.

    Writes nothing.

    Raises:
      InputError: the checkpoint or the journal is damaged, or the checkpoint is of another model.
    """
    state = init_state(model, recipe_of(config))
    if run_files.journal(workdir).exists():
        journal.read(run_files.journal(workdir))  # checked now, since `fit` writes to it
    checkpoints = Checkpoints(run_files.checkpoints(workdir))
    step = checkpoints.latest
    if step is None:
        return state, Progress()
    state = resume(
        step,
        checkpoints.restore(step, "model", state.result),
        checkpoints.restore(step, "rest", state.rest),
    )
    return state, _progress_of(checkpoints, step, workdir)


def finished(config: Train, workdir: Path) -> bool:
    """Whether the run in a workdir has finished training.

    Raises:
      InputError: the last checkpoint is damaged.
    """
    checkpoints = Checkpoints(run_files.checkpoints(workdir))
    step = checkpoints.latest
    return step is not None and _progress_of(checkpoints, step, workdir).finished(step, config)


def _progress_of(checkpoints: Checkpoints, step: int, workdir: Path) -> Progress:
    records = run_files.journal(workdir)
    known, lines = checkpoints.facts(step), journal.read(records) if records.exists() else []
    with reading(checkpoints.place(step)):
        return Progress.of(known, [line for line in lines if line["step"] <= step])


def fit(
    config: Train,
    state: FlatState,
    progress: Progress,
    batches: Callable[[int], Iterator],
    evaluate: Callable[[Seq2Seq], dict[str, float]],
    workdir: Path,
    *,
    rng: jax.Array,
    criterion: Criterion,
    on_record: Callable[[dict], None] | None = None,
) -> None:
    """Trains a model, starting or resuming from what `begin` returned.

    Args:
      config: the options of training.
      state: the state to start from; its buffers are donated.
      progress: the progress to start from.
      batches: maps a number of steps done to the batches that follow.
      evaluate: maps a model to its validation metrics, among them perplexity and the criterion's.
      workdir: where `metrics.jsonl` and `checkpoints/` are kept.
      rng: the key of everything random in training; each step derives its own from it.
      criterion: decides which validation is the best.
      on_record: is called with the record of each validation.

    Raises:
      InputError: the loss, its gradient or the validation perplexity stays, or is, not finite.
      OSError: there is no space left for a checkpoint.
    """
    records, recorded = run_files.journal(workdir), facts.of_run(workdir)
    checkpoints = WritableCheckpoints(run_files.checkpoints(workdir), config.keep)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    first = int(state.parts.step)
    bar = progress_bar(console, first, config.steps)
    with contextlib.closing(checkpoints), bar as advance:
        checkpoints.check_space(state.result, state.rest)
        if first:
            console.print(f"resuming from step {first}")
        if first and not records.exists():
            console.print(f"warning: {records} is missing, and begins anew")
        journal.truncate(records, first)
        recipe, mesh = recipe_of(config), make_mesh(config)
        if mesh is not None:
            state = replicate(state, mesh)
        throughput, losses, unread = Throughput(), [], []
        following = batches(first)
        for step in range(first + 1, config.steps + 1):
            if progress.finished(step - 1, config):
                console.print(
                    f"no better {criterion.metric} since step {progress.best_step}: stopping"
                )
                break
            batch = next(following)
            state, loss = train_step(state, batch, rng, recipe=recipe, mesh=mesh)
            throughput.count(batch.source, batch.target)
            unread.append(loss)
            validate = step % config.valid_every == 0 or step == config.steps
            if step == first + 1 or step % LOOK_EVERY == 0 or validate or progress.skipped:
                new = list(map(float, unread))
                skipped = _skipped(new, step - len(new) + 1, progress.skipped, config.skip)
                if validate and skipped == step:  # nothing was learnt that could be measured
                    raise InputError(_why_ended(step, skipped))
                losses += new
                advance(step, losses[-1])
                seconds, unread = throughput.close(), []
                progress = progress._replace(seconds=progress.seconds + seconds, skipped=skipped)
                if step == first + 1:
                    took = f"{seconds:.1f} s, compilation included"
                    console.print(f"step {step}: loss {losses[-1]:.3f} ({took})")
            if not validate:
                continue
            shown = state if mesh is None else first_replica(state)
            metrics, rates = evaluate(shown.result), throughput.rates()
            record = record_of(step, losses, rates, metrics, progress, criterion.metric)
            journal.append(records, record)
            console.print(summary(record))
            for warning in warnings(journal.read(records)):
                console.print(f"warning: {warning}")
            goodness = criterion.goodness(record)
            if not all(map(math.isfinite, goodness)):
                raise InputError(diverged(record, checkpoints.best))
            progress = progress.after(step, goodness)
            known = progress._asdict() | recorded
            checkpoints.save(step, shown.result, shown.rest, known, goodness)
            losses = []
            if on_record:
                on_record(record)
            throughput.reset()


def _skipped(losses: Sequence[float], first: int, skipped: int, most: int) -> int:
    """How many steps in a row have been skipped after some more steps.

    Args:
      losses: of these steps; NaN of those that were skipped.
      first: the first of these steps.
      skipped: the number in a row before them.
      most: the number in a row after which training ends.

    Raises:
      InputError: there were more.
    """
    for step, loss in enumerate(losses, start=first):
        skipped = 0 if math.isfinite(loss) else skipped + 1
        if skipped > most:
            raise InputError(_why_ended(step, skipped))
    return skipped


def _why_ended(step: int, skipped: int) -> str:
    if skipped == step:
        return (
            "the loss or its gradient is not finite from the first step on, before any update: "
            "the model is the cause, not its training"
        )
    if skipped == step - 1:
        return (
            "the loss or its gradient is no longer finite after the first update: "
            "train.learning_rate is far too large, or the model is the cause"
        )
    return (
        f"the loss or its gradient was not finite in {skipped} steps in a row, up to step {step}: "
        "start again in a new folder with a lower train.learning_rate or train.clip_norm; "
        "or, if only some pairs are the cause, go on with a larger train.skip"
    )
