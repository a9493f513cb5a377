"""How far the runs of a sweep are, as their files tell anyone."""

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.records import journal, run_files, states
from attn_jax.records.states import FAILED, FINISHED, PAUSED, RUNNING
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.training.loop import finished
from attn_jax.translation.loading import experiment_of

WAITING = "waiting"


@dataclasses.dataclass(frozen=True)
class Standing:
    """How far a run is.

    Attributes:
      number: in the plan.
      label: the name of its folder.
      state: one of the five.
      step: steps done.
      steps: steps in all.
      rate: steps per second, with validations while it is running; 0 if not known.
      said: its last validation, or its loss before there is one.
      why: why it failed.
    """

    number: int
    label: str
    state: str
    step: int
    steps: int
    rate: float
    said: str
    why: str

    @property
    def seconds_left(self) -> float | None:
        """Seconds that it still needs; None if its speed is not known."""
        return (self.steps - self.step) / self.rate if self.rate else None


def is_trained(folder: Path, experiment: Experiment) -> bool:
    """Whether a run is trained, evaluated or not."""
    return (
        run_files.flags(folder).is_file()
        and experiment_of(folder) == experiment
        and finished(experiment.train, folder)
    )


def is_finished(folder: Path, experiment: Experiment, is_untested: bool) -> bool:
    """Whether nothing is left to be made of a run, which may leave the test split alone."""
    evaluated = is_untested or run_files.evaluation(folder, "test").is_file()
    return evaluated and is_trained(folder, experiment)


def standings(root: Path, plan: Plan) -> list[Standing]:
    """How far each run of a plan is.

    Args:
      root: the folder of the sweep.
      plan: its plan.
    """
    return [_standing(root, plan, label) for label in plan.runs]


def _standing(root: Path, plan: Plan, label: str) -> Standing:
    folder = root / label
    train, said_now = config.train_of(plan.runs[label]), states.read(folder)
    step, rate, said, records = steps_done(folder), 0.0, "", []
    with contextlib.suppress(InputError):  # none, or being written
        records = journal.read(run_files.journal(folder))
    if records:
        last = records[-1]
        metric, rate = last.get("metric", "perplexity"), last.get("steps_per_second", 0.0)
        said = f"{metric} {last.get('valid_' + metric, float('nan')):.2f} at step {last['step']}"
    state, why = WAITING if step == 0 else PAUSED, ""
    if states.is_trained_now(folder):
        state = RUNNING
        step = max(step, said_now.get("step", 0))
        rate = said_now.get("steps_per_second") or rate
        if not said and "loss" in said_now:
            said = f"loss {said_now['loss']:.3f}"
    elif _is_done(folder, train, label in plan.untested):
        state = FINISHED
    elif said_now.get("state") == FAILED:
        state, why = FAILED, f"{label} failed: {said_now.get('why', '')}"
    return Standing(plan.numbers[label], label, state, step, train.steps, rate, said, why)


def _is_done(folder: Path, train: config.Train, is_untested: bool) -> bool:
    try:
        evaluated = is_untested or run_files.evaluation(folder, "test").is_file()
        return evaluated and finished(train, folder)
    except (InputError, OSError):  # a checkpoint is damaged, or has just been removed
        return False


def seconds_left(runs: Sequence[Standing]) -> float | None:
    """Seconds until all runs are finished, as many at a time as now; None if that is not known."""
    rates = [run.rate for run in runs if run.rate]
    if not rates:
        return None
    usual = sum(rates) / len(rates)
    todo = [run for run in runs if run.state not in (FINISHED, FAILED)]
    seconds = sum((run.steps - run.step) / (run.rate or usual) for run in todo)
    return seconds / max(1, _count(runs, RUNNING))


def summary(runs: Sequence[Standing]) -> str:
    """One line on a sweep."""
    parts = [f"{_count(runs, FINISHED)} of {len(runs)} done"]
    parts += [f"{_count(runs, s)} {s}" for s in (RUNNING, FAILED) if _count(runs, s)]
    left = seconds_left(runs)
    if left:
        parts.append(f"about {told(left)} left")
    return ", ".join(parts)


def are_over(runs: Iterable[Standing]) -> bool:
    """Whether no run is left to be made."""
    return all(run.state in (FINISHED, FAILED) for run in runs)


def told(seconds: float) -> str:
    """A duration in words."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def _count(runs: Iterable[Standing], state: str) -> int:
    return sum(run.state == state for run in runs)
