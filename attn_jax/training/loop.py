"""The training loop: steps, validations, checkpoints, resuming, and ending when told to."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
from rich import progress as bars
from rich.console import Console

from attn_jax.config import Train
from attn_jax.errors import Paused
from attn_jax.files import is_terminal
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.recipe.optimizer import make_optimizer
from attn_jax.records import changes, journal, run_files
from attn_jax.records.progress import Criterion, Progress
from attn_jax.training import processes
from attn_jax.training.checkpoints import Checkpoints, WritableCheckpoints
from attn_jax.training.notice import Notice, Told
from attn_jax.training.objective import Objective
from attn_jax.training.running import Running
from attn_jax.training.step import FlatState, Recipe, init_state, resume, with_optimizer


@contextlib.contextmanager
def progress_bar(
    console: Console, first: int, steps: int
) -> Iterator[Callable[[int, float], None]]:
    """Shows a progress bar, unless output goes to a file.

    Args:
      console: where it is shown.
      first: steps done.
      steps: steps in all.

    Yields:
      A function that sets the number of steps done and the loss.
    """
    bar = bars.Progress(
        bars.TextColumn("training"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        bars.TextColumn("loss {task.fields[loss]}"),
        console=console,
        disable=not console.is_terminal,  # as in a notebook, where rich needs ipywidgets
    )
    task = bar.add_task("training", total=steps, completed=first, loss="…")
    redraw = _redrawing(bar) if console.is_jupyter else lambda: None

    def advance(step: int, loss: float) -> None:
        bar.update(task, completed=step, loss=f"{loss:.3f}")
        redraw()

    with bar:
        yield advance


def _redrawing(bar: bars.Progress) -> Callable[[], None]:
    """Shows a bar in a notebook; returns a function that draws it anew in its place."""
    from IPython.display import DisplayHandle

    shown = DisplayHandle()
    shown.display(bar)
    return lambda: shown.update(bar)


def recipe_of(config: Train) -> Recipe:
    """The recipe that the options describe."""
    return Recipe(
        loss=Objective(
            label_smoothing=config.label_smoothing,
            losses=config.losses,
            sampling=config.scheduled_sampling,
            sampling_steps=config.sampling_steps,
        ),
        optimizer=make_optimizer(
            config.optimizer,
            config.schedule,
            config.learning_rate,
            config.warmup_steps,
            config.clip_norm,
        ),
        average=config.average,
        mean=config.mean_over,
        microbatches=config.microbatches,
        precision=config.compute,
    )


def begin(config: Train, model: Seq2Seq, workdir: Path) -> tuple[FlatState, Progress]:
    """The state and progress of the last checkpoint in a workdir, or the initial ones.

    Writes nothing.

    Args:
      config: the options of training.
      model: the model with its initial parameters.
      workdir: the folder of the run.

    Raises:
      InputError: the checkpoint or the journal is damaged, or the checkpoint is of another model.
    """
    if journal.is_begun(workdir):
        journal.read(workdir)  # checked now, since `fit` writes to it
    checkpoints = Checkpoints(workdir)
    step = checkpoints.latest
    if step is None:
        return init_state(model, recipe_of(config)), Progress()
    made = _as_made(config, workdir, step)
    state = init_state(model, recipe_of(made))
    state = resume(
        step,
        checkpoints.restore(step, "model", state.result),
        checkpoints.restore(step, "rest", state.rest),
    )
    if type(config.optimizer) is not type(made.optimizer):
        state = with_optimizer(state, recipe_of(config))
    return state, checkpoints.known()[step].progress


def _as_made(config: Train, workdir: Path, step: int) -> Train:
    """The options with the optimizer that has made the step of a checkpoint."""
    if not run_files.flags(workdir).is_file():  # it is not of the folder of a run
        return config
    optimizer = changes.options_at(workdir, step)["train.optimizer"]
    return dataclasses.replace(config, optimizer=optimizer)


def finished(config: Train, workdir: Path) -> bool:
    """Whether the run in a workdir has finished training.

    Raises:
      InputError: the last checkpoint is damaged.
    """
    known = Checkpoints(workdir).known()
    step = max(known, default=0)
    return bool(known) and known[step].progress.finished(step, config)


def fit(
    config: Train,
    recipe: Recipe,
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
      config: the options of training that concern the loop: how long it goes on, how often it
        validates and saves.
      recipe: how a step trains.
      state: the state to start from; its buffers are donated.
      progress: the progress to start from.
      batches: maps a number of steps done to the batches that follow, or to the share of them that
        this process has.
      evaluate: maps a model to its validation metrics, among them perplexity and the criterion's.
      workdir: where `metrics.jsonl` and `checkpoints/` are kept.
      rng: the key of everything random in training; each step derives its own from it.
      criterion: decides which validation is the best.
      on_record: is called with the record of each validation, in the first process.
      on_step: is called every 20 steps, when losses are read, with the number of steps done and a
        loss, in the first process.

    Raises:
      InputError: the loss, its gradient or the validation perplexity stays, or is, not finite.
      OSError: there is no space left for a checkpoint.
      Paused: a signal told training to end, and it has saved.
    """
    first_process = processes.is_first()
    with processes.together():
        checkpoints = WritableCheckpoints(workdir, config.keep) if first_process else None
    shown = is_terminal(sys.stderr)
    console = Console(stderr=True, highlight=False, soft_wrap=True, force_terminal=shown)
    run = Running(config, recipe, state, progress, workdir, rng, criterion, checkpoints, console)
    bar = progress_bar(console, run.step, config.steps)
    with Notice(config.grace) as notice, bar as advance:
        run.begin()
        following = batches(run.step)
        while not run.finished and not notice.given:
            if run.awaits_validation:
                run.check_learnt()
                try:
                    with notice.interrupting():
                        metrics = evaluate(run.model)
                except Told:
                    break  # the validation is made when training goes on
                record = run.end_validation(metrics)
                if on_record and first_process:
                    on_record(record)
                run.throughput.reset()
                continue
            run.train(next(following))
            # JAX must be asked after each step, whether or not there is a reason to look.
            if notice.told(run.step) or run.should_look:
                loss = run.look()
                advance(run.step, loss)
                if on_step and first_process:
                    on_step(run.step, loss)
                if processes.agreed(run.overdue):
                    run.save(None)
        run.end(notice)
    if notice.given:
        raise Paused(f"saved at step {run.step}, as {notice.name} asked")
