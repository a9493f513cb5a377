"""The training loop: steps, validations, checkpoints, and resuming."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from attn_jax import facts, journal, run_files
from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.files import reading
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.progress import Progress, goodness
from attn_jax.training.checkpoint import Checkpoints
from attn_jax.training.devices import first_replica, make_mesh, replicate
from attn_jax.training.saving import WritableCheckpoints
from attn_jax.training.step import FlatState, init_state, resume, train_step
from attn_jax.training.throughput import Throughput

LOOK_EVERY = 20  # steps between reads of the loss, which stall the device


def begin(config: Train, model: Seq2Seq, workdir: Path) -> tuple[FlatState, Progress]:
    """The state and progress of the last checkpoint in a workdir, or the initial ones.

    Writes nothing.

    Raises:
      InputError: the checkpoint or the journal is damaged, or the checkpoint is of another model.
    """
    state = init_state(model, config)
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
    return state, _progress_of(checkpoints)


def finished(config: Train, workdir: Path) -> bool:
    """Whether the run in a workdir has finished training.

    Raises:
      InputError: the last checkpoint is damaged.
    """
    checkpoints = Checkpoints(run_files.checkpoints(workdir))
    step = checkpoints.latest
    return step is not None and _progress_of(checkpoints).finished(step, config)


def _progress_of(checkpoints: Checkpoints) -> Progress:
    known = checkpoints.facts(checkpoints.latest)
    with reading(checkpoints.place(checkpoints.latest)):
        return Progress(*(known[name] for name in Progress._fields))


def fit(
    config: Train,
    state: FlatState,
    progress: Progress,
    batches: Callable[[int], Iterator],
    evaluate: Callable[[Seq2Seq], dict[str, float]],
    workdir: Path,
    *,
    rng: jax.Array,
    larger_is_better: bool,
) -> None:
    """Trains a model, starting or resuming from what `begin` returned.

    Args:
      config: the options of training.
      state: the state to start from; its buffers are donated.
      progress: the progress to start from.
      batches: maps a number of steps done to the batches that follow.
      evaluate: maps a model to its validation metrics, which include `config.metric`.
      workdir: where `metrics.jsonl` and `checkpoints/` are kept.
      rng: the key of everything random in training; each step derives its own from it.
      larger_is_better: whether larger values of `config.metric` are better.

    Raises:
      InputError: the loss is not finite.
      OSError: there is no space left for a checkpoint.
    """
    records, recorded = run_files.journal(workdir), facts.of_run(workdir)
    checkpoints = WritableCheckpoints(run_files.checkpoints(workdir), config.keep)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    first = int(state.parts.step)
    bar = _progress_bar(console, first, config.steps)
    with contextlib.closing(checkpoints), bar as advance:
        checkpoints.check_space(state.result, state.rest)
        if first:
            console.print(f"resuming from step {first}")
        if first and not records.exists():
            console.print(f"warning: {records} is missing, and begins anew")
        journal.truncate(records, first)
        mesh = make_mesh(config)
        if mesh is not None:
            state = replicate(state, mesh)
        throughput, losses = Throughput(), []
        following = batches(first)
        for step in range(first + 1, config.steps + 1):
            if progress.finished(step - 1, config):
                console.print(
                    f"no better {config.metric} since step {progress.best_step}: stopping"
                )
                break
            batch = next(following)
            state, loss = train_step(state, batch, rng, config=config, mesh=mesh)
            throughput.count(batch.source, batch.target)
            losses.append(loss)
            validate = step % config.valid_every == 0 or step == config.steps
            if step == first + 1 or step % LOOK_EVERY == 0 or validate:
                losses = _finite(losses, step)
                advance(step, losses[-1])
                seconds = throughput.close()
                progress = progress._replace(seconds=progress.seconds + seconds)
                if step == first + 1:
                    took = f"{seconds:.1f} s, compilation included"
                    console.print(f"step {step}: loss {losses[-1]:.3f} ({took})")
            if not validate:
                continue
            shown = state if mesh is None else first_replica(state)
            record = _record(step, losses, throughput.rates(), evaluate(shown.result), progress)
            journal.append(records, record)
            console.print(_summary(record, config.metric))
            value = goodness(record, config.metric, larger_is_better)
            progress = progress.after(step, value)
            known = progress._asdict() | recorded
            checkpoints.save(step, shown.result, shown.rest, known, value)
            losses = []
            throughput.reset()


def _finite(losses: list, step: int) -> list[float]:
    losses = [float(loss) for loss in losses]
    from_start = step == len(losses)
    if from_start and not np.isfinite(losses[0]):
        raise InputError(
            "the loss is not finite at the first step, before any update: the model is the cause, "
            "not its training"
        )
    if from_start and not np.isfinite(losses[:2]).all():
        raise InputError(
            "the loss is no longer finite after the first update: the gradient of the model is not "
            "finite, or --train.learning_rate is far too large"
        )
    if not np.isfinite(losses).all():
        raise InputError(
            f"the training loss is no longer finite by step {step}: lower "
            "--train.learning_rate or --train.clip_norm and start again in a new --workdir"
        )
    return losses


def _record(
    step: int,
    losses: list[float],
    rates: dict[str, float],
    metrics: dict[str, float],
    progress: Progress,
) -> dict[str, float]:
    """The line of the journal on a validation."""
    record = {"step": step, "train_loss": float(np.mean(losses))}
    record |= rates | {f"valid_{name}": value for name, value in metrics.items()}
    return record | {"seconds": round(progress.seconds, 2)}


def _summary(record: dict, metric: str) -> str:
    return (
        f"step {record['step']}: loss {record['train_loss']:.3f}, validation {metric} "
        f"{record['valid_' + metric]:.2f}, {record['steps_per_second']:.1f} steps/s"
    )


@contextlib.contextmanager
def _progress_bar(
    console: Console, first: int, steps: int
) -> Iterator[Callable[[int, float], None]]:
    """Shows a progress bar if in a terminal; yields a function that sets its step and loss."""
    bar = ProgressBar(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("loss {task.fields[loss]}"),
        console=console,
        disable=not console.is_terminal,
    )
    task = bar.add_task("training", total=steps, completed=first, loss="…")
    with bar:
        yield lambda step, loss: bar.update(task, completed=step, loss=f"{loss:.3f}")
