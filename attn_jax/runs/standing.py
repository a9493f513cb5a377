"""How far the runs of a sweep are, as their files and the claims of workers tell anyone."""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.records import claims, journal, run_files
from attn_jax.records.claims import Claim, Watch
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.training.loop import finished

FINISHED, RUNNING, FAILED, PAUSED, WAITING = (
    "finished",
    "running",
    "failed",
    "paused",
    "waiting",
)


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


def standings(root: Path, plan: Plan, watch: Watch) -> list[Standing]:
    """How far each run of a plan is.

    Args:
      root: the folder of the sweep.
      plan: its plan.
      watch: sees which claims are alive, from one call to the next.
    """
    return [_standing(root, plan, label, watch) for label in plan.runs]


def _standing(root: Path, plan: Plan, label: str, watch: Watch) -> Standing:
    folder, claim = root / label, claims.last(run_files.claims(root, label))
    train = config.train_of(plan.runs[label])
    step, rate, said, records = steps_done(folder), 0.0, "", []
    with contextlib.suppress(InputError):  # none, or being written
        records = journal.read(run_files.journal(folder))
    if records:
        last = records[-1]
        metric, rate = last.get("metric", "perplexity"), last.get("steps_per_second", 0.0)
        said = f"{metric} {last.get('valid_' + metric, float('nan')):.2f} at step {last['step']}"
    state, why = WAITING if step == 0 else PAUSED, ""
    if claim is not None and _is_held(run_files.claims(root, label), claim, watch):
        state = RUNNING
        step = max(step, claim.said.get("step", 0))
        rate = claim.said.get("steps_per_second") or rate
        if not said and "loss" in claim.said:
            said = f"loss {claim.said['loss']:.3f}"
    elif _is_done(folder, train, label in plan.untested):
        state = FINISHED
    elif claim is not None and claim.state == claims.FAILED:
        state, why = FAILED, str(claim.said.get("why", ""))
    return Standing(plan.numbers[label], label, state, step, train.steps, rate, said, why)


def _is_done(folder: Path, train: config.Train, is_untested: bool) -> bool:
    try:
        evaluated = is_untested or run_files.evaluation(folder, "test").is_file()
        return evaluated and finished(train, folder)
    except (InputError, OSError):  # a checkpoint is damaged, or has just been removed
        return False


def _is_held(folder: Path, claim: Claim, watch: Watch) -> bool:
    """Whether whoever holds a claim is at work, as far as can be seen."""
    if claim.state != claims.RUNNING:
        return False
    watch.look(folder, claim)
    if claim.is_of_this_machine and isinstance(claim.said.get("pid"), int):
        try:
            os.kill(claim.said["pid"], 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # of another user; perhaps another process has got its number
            pass
    return not watch.is_dead(folder)


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
