"""The training loop: steps, validations, checkpoints, resuming, and ending when told to."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
from rich.console import Console

from attn_jax.config import Train, changes, train_after
from attn_jax.errors import InputError, Paused
from attn_jax.files import reading
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import facts, journal, run_files
from attn_jax.records.progress import Criterion, Goodness, Progress
from attn_jax.training import processes
from attn_jax.training.checkpoint import Checkpoints
from attn_jax.training.devices import first_replica, make_mesh, replicate, split
from attn_jax.training.notice import Notice, Told
from attn_jax.training.progress_bar import progress_bar
from attn_jax.training.recipe import recipe_of
from attn_jax.training.saving import OthersCheckpoints, WritableCheckpoints
from attn_jax.training.step import (
    FlatState,
    init_state,
    resume,
    train_step,
    with_optimizer,
)
from attn_jax.training.throughput import Throughput
from attn_jax.training.validations import diverged, record_of, summary, warnings

LOOK_EVERY = 20  # steps between reads of the loss, which stall the device


def begin(config: Train, model: Seq2Seq, workdir: Path) -> tuple[FlatState, Progress]:
    """The state and progress of the last checkpoint in a workdir, or the initial ones.

    Writes nothing.

    Raises:
      InputError: the checkpoint or the journal is damaged, or the checkpoint is of another model.
    """
    if run_files.journal(workdir).exists():
        journal.read(run_files.journal(workdir))  # checked now, since `fit` writes to it
    checkpoints = Checkpoints(run_files.checkpoints(workdir))
    step = checkpoints.latest
    # After a step, the state is of the optimiser that has made it.
    state = init_state(model, recipe_of(train_after(config, (step or 1) - 1)))
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
        return Progress.of(step, known, [line for line in lines if line["step"] <= step])


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
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Trains a model, starting or resuming from what `begin` returned.

    Several processes train together. The first of them writes the files and tells of the progress;
    all of them make the same steps, validations and checkpoints.

    Args:
      config: the options of training.
      state: the state to start from; its buffers are donated.
      progress: the progress to start from.
      batches: maps a number of steps done to the batches that follow, or to the share of them that
        this process has.
      evaluate: maps a model to its validation metrics, among them perplexity and the criterion's.
      workdir: where `metrics.jsonl` and `checkpoints/` are kept.
      rng: the key of everything random in training; each step derives its own from it.
      criterion: decides which validation is the best.
      on_record: is called with the record of each validation, in the first process.
      on_step: is called every `LOOK_EVERY` steps with the number of steps done and a loss, in the
        first process.

    Raises:
      InputError: the loss, its gradient or the validation perplexity stays, or is, not finite.
      OSError: there is no space left for a checkpoint.
      Paused: a signal told training to end, and it has saved.
    """
    records, recorded = run_files.journal(workdir), facts.of_run(workdir)
    first_process = processes.is_first()
    writer = WritableCheckpoints if first_process else OthersCheckpoints
    checkpoints = writer(run_files.checkpoints(workdir), config.keep)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    step = first = saved = int(state.parts.step)
    bar = progress_bar(console, first, config.steps)
    with Notice(config.grace) as notice, contextlib.closing(checkpoints), bar as advance:
        with processes.together():
            checkpoints.check_space(state.result, state.rest)
        if first:
            console.print(f"resuming from step {first}")
        if progress.validated and not records.exists():
            console.print(f"warning: {records} is missing, and begins anew")
        if first_process:
            journal.truncate(records, progress.validated)
        now = train_after(config, max(step - 1, 0))
        recipe, mesh = recipe_of(now), make_mesh(now)
        if mesh is not None:
            state, rng = replicate((state, rng), mesh)
        changed = {change.step: change for change in changes.read(config.change)}

        def save(score: Goodness | None) -> None:
            """Writes a checkpoint, with a score if it is of a validation."""
            nonlocal saved, saved_at
            shown = state if mesh is None else first_replica(state)
            known = progress._asdict() | recorded
            with processes.together():
                checkpoints.save(step, shown.result, shown.rest, known, score)
            saved, saved_at = step, time.monotonic()
            throughput.reset()

        throughput, unread, saved_at = Throughput(progress.rates), [], time.monotonic()
        following = batches(first)
        while not progress.finished(step, config) and not notice.given:
            if progress.awaits_validation(step, config):
                if progress.skipped == step:  # nothing was learnt that could be measured
                    raise InputError(_why_ended(step, progress.skipped))
                shown = state if mesh is None else first_replica(state)
                try:
                    with notice.interrupting():
                        metrics = evaluate(shown.result)
                except Told:
                    break
                record = record_of(step, progress, metrics, criterion.metric)
                if first_process:
                    journal.append(records, record)
                    console.print(summary(record))
                    for warning in warnings(journal.read(records)):
                        console.print(f"warning: {warning}")
                goodness = criterion.goodness(record)
                if not all(map(math.isfinite, goodness)):
                    raise InputError(diverged(record, checkpoints.best))
                progress = progress.after(step, goodness)
                throughput.forget()
                save(goodness)
                if on_record and first_process:
                    on_record(record)
                throughput.reset()
                continue
            if step in changed:
                console.print(f"from step {step} on: {changed[step]}")
                if mesh is not None:
                    state, rng = first_replica((state, rng))
                before, now = now, train_after(config, step)
                recipe, mesh = recipe_of(now), make_mesh(now)
                if type(now.optimizer) is not type(before.optimizer):
                    state = with_optimizer(state, recipe)
                if mesh is not None:
                    state, rng = replicate((state, rng), mesh)
            batch = next(following)
            throughput.count(batch.source, batch.target)
            if mesh is not None:
                batch = split(batch, mesh)
            state, loss = train_step(state, batch, rng, recipe=recipe, mesh=mesh)
            step += 1
            unread.append(loss)
            validates = progress.awaits_validation(step, config)
            overdue = 0 < config.save_every <= time.monotonic() - saved_at and not validates
            look = step == first + 1 or step % LOOK_EVERY == 0 or progress.skipped
            # Several processes agree on what is overdue only where all of them look.
            alone = processes.count() == 1
            if notice.told(step) or look or validates or (overdue and alone):
                new, unread = list(map(float, unread)), []
                skipped = _skipped(new, step - len(new) + 1, progress.skipped, config.skip)
                seconds = throughput.close()
                progress = progress.trained(new, seconds, skipped)
                progress = progress._replace(rates=throughput.rates())
                advance(step, new[-1])
                if on_step and first_process:
                    on_step(step, new[-1])
                if step == first + 1:
                    took = f"{seconds:.1f} s, compilation included"
                    console.print(f"step {step}: loss {new[-1]:.3f} ({took})")
                if processes.agreed(overdue):
                    save(None)
        if not notice.given and step < config.steps:
            console.print(f"no better {criterion.metric} since step {progress.best_step}: stopping")
        if notice.given:
            told = f"{notice.name}: saving at step {step}; another signal ends at once"
            console.print(told)
            if saved != step:
                save(None)
    if notice.given:
        raise Paused(f"saved at step {step}, as {notice.name} asked")


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
