"""A run while it is trained: its state, and what is done with it."""

import dataclasses
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from msgspec.structs import replace
from rich.console import Console

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.records import journal, run_files
from attn_jax.records.progress import Criterion, Goodness, Progress
from attn_jax.tokens import PAD, Batch
from attn_jax.training import processes
from attn_jax.training.checkpoints import WritableCheckpoints
from attn_jax.training.devices import first_replica, make_mesh, replicate, split
from attn_jax.training.notice import Notice
from attn_jax.training.step import FlatState, Recipe, train_step
from attn_jax.training.validations import diverged, record_of, summary, warnings


class Throughput:
    """Measures the speed of training over intervals of steps.

    Rates are medians, which ignore outliers, over the intervals in which no batch had a new shape,
    since a step is compiled for each shape. If there are none, they are over all intervals.

    Args:
      before: the rates of earlier intervals, which count if there are no others.
    """

    def __init__(self, before: Sequence[float] = ()) -> None:
        self._known: set[tuple] = set()
        self.forget()
        self._before = before
        self.reset()

    def forget(self) -> None:
        """Starts anew, but for the shapes that are known."""
        self._before: Sequence[float] = ()
        self._rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}

    def reset(self) -> None:
        """Starts a new interval."""
        self._begin, self._tokens, self._steps = time.perf_counter(), 0, 0
        self._compiled = False

    def count(self, source: np.ndarray, target: np.ndarray) -> None:
        """Counts a step with this batch, or with the share of it that this process has."""
        shapes = source.shape, target.shape
        self._compiled |= shapes not in self._known
        self._known.add(shapes)
        self._tokens += int((target != PAD).sum())
        self._steps += 1

    def close(self) -> float:
        """Ends the interval for all processes, and starts the next; the seconds that it took."""
        seconds = time.perf_counter() - self._begin
        if self._steps:
            rates = self._steps / seconds, processes.total(self._tokens) / seconds
            self._rates[self._compiled].append(rates)
        self.reset()
        return seconds

    def rates(self) -> Sequence[float]:
        """Median steps and target tokens (without padding) per second; nothing if not measured."""
        rates = self._rates[False] or self._rates[True]
        return [statistics.median(each) for each in zip(*rates, strict=True)] or self._before


LOOK_EVERY = 20  # steps between reads of the loss, which stall the device


@dataclasses.dataclass
class Running:
    """A run while it is trained: its state, and what is done with it; arguments as of `fit`.

    Steps are dispatched without waiting for their results. Their losses stay on the device until
    `look` reads them, every `LOOK_EVERY` steps and where training stops in any case.
    """

    config: Train
    recipe: Recipe
    state: FlatState
    progress: Progress
    workdir: Path
    rng: jax.Array
    criterion: Criterion
    checkpoints: WritableCheckpoints | None  # in the first process
    console: Console

    def __post_init__(self) -> None:
        self.step = self.first = self.saved = int(self.state.parts.step)
        self.unread: list[jax.Array] = []  # losses of the last steps

    @property
    def finished(self) -> bool:
        return self.progress.finished(self.step, self.config)

    @property
    def awaits_validation(self) -> bool:
        return self.progress.awaits_validation(self.step, self.config)

    @property
    def overdue(self) -> bool:
        """Whether the last checkpoint is too old; a validation saves in any case."""
        age = time.monotonic() - self.saved_at
        return 0 < self.config.save_every <= age and not self.awaits_validation

    @property
    def should_look(self) -> bool:
        """Whether the losses are to be read after this step."""
        if self.step == self.first + 1 or self.step % LOOK_EVERY == 0:
            return True
        # Several processes agree on what is overdue only where all of them look.
        overdue = self.overdue and processes.count() == 1
        return bool(self.progress.skipped) or self.awaits_validation or overdue

    @property
    def whole(self) -> FlatState:
        """The state as one device has it."""
        return self.state if self.mesh is None else first_replica(self.state)

    @property
    def model(self) -> Seq2Seq:
        """The model to validate and to use."""
        return self.whole.result

    def begin(self) -> None:
        """Checks that there is space, and puts the state on the devices."""
        with processes.together():
            if self.checkpoints:
                self.checkpoints.check_space(self.state.result, self.state.rest)
        if self.first:
            self.console.print(f"resuming from step {self.first}")
        if processes.is_first():
            removed = journal.truncate(self.workdir, self.progress.validated)
            if removed:
                file = run_files.journal(self.workdir)
                self.console.print(f"{removed} lines of {file} are dropped, to be repeated")
        self.mesh = make_mesh(self.config)
        if self.mesh is not None:
            self.state, self.rng = replicate((self.state, self.rng), self.mesh)
        self.throughput, self.saved_at = Throughput(self.progress.rates), time.monotonic()

    def train(self, batch: Batch) -> None:
        """Makes a step with a batch of arrays of the host; does not wait for its result."""
        self.throughput.count(batch.source, batch.target)
        if self.mesh is not None:
            batch = split(batch, self.mesh)
        self.state, loss = train_step(
            self.state, batch, self.rng, recipe=self.recipe, mesh=self.mesh
        )
        self.step += 1
        self.unread.append(loss)

    def look(self) -> float:
        """Waits for the steps made, and reads their losses; returns that of the last one."""
        losses, self.unread = list(map(float, self.unread)), []
        first = self.step - len(losses) + 1
        skipped = skipped_in_a_row(losses, first, self.progress.skipped, self.config.skip)
        seconds = self.throughput.close()
        self.progress = self.progress.trained(losses, seconds, skipped)
        self.progress = replace(self.progress, rates=tuple(self.throughput.rates()))
        if self.step == self.first + 1:
            took = f"{seconds:.1f} s, compilation included"
            self.console.print(f"step {self.step}: loss {losses[-1]:.3f} ({took})")
        return losses[-1]

    def check_learnt(self) -> None:
        """Raises InputError if all steps were skipped: there is nothing that could be measured."""
        if self.progress.skipped == self.step:
            raise InputError(_why_ended(self.step, self.progress.skipped))

    def end_validation(self, metrics: dict[str, float]) -> dict:
        """Writes the record of a validation and a checkpoint; returns the record."""
        record = record_of(self.step, self.progress, metrics, self.criterion.metric)
        if processes.is_first():
            journal.append(self.workdir, record)
            self.console.print(summary(record))
            for warning in warnings(journal.read(self.workdir)):
                self.console.print(f"warning: {warning}")
        goodness = self.criterion.goodness(record)
        if not all(map(math.isfinite, goodness)):
            raise InputError(diverged(record, self.progress.best_step or None))
        self.progress = self.progress.after(self.step, goodness)
        self.throughput.forget()
        self.save(goodness)
        return record

    def save(self, goodness: Goodness | None) -> None:
        """Writes a checkpoint, with how good it is if it is of a validation."""
        whole = self.whole
        with processes.together():
            if self.checkpoints:
                self.checkpoints.save(self.step, whole.result, whole.rest, self.progress, goodness)
        self.saved, self.saved_at = self.step, time.monotonic()
        self.throughput.reset()

    def end(self, notice: Notice) -> None:
        """Says why training ends, and saves if a signal has ended it."""
        if notice.given:
            self.console.print(
                f"{notice.name}: saving at step {self.step}; another signal ends at once"
            )
            if self.saved != self.step:
                self.save(None)
        elif self.step < self.config.steps:
            why = f"no better {self.criterion.metric} since step {self.progress.best_step}"
            self.console.print(f"{why}: stopping")


def skipped_in_a_row(losses: Sequence[float], first: int, skipped: int, most: int) -> int:
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
