"""How far the runs of a sweep are, and the time that they still need, as their files tell."""

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.records import journal, run_files, states
from attn_jax.records.states import FAILED, FINISHED, PAUSED, RUNNING
from attn_jax.runs.folder import steps_done
from attn_jax.runs.measuring import Cost, Work, makespan, told
from attn_jax.runs.plans import Plan
from attn_jax.training.loop import finished
from attn_jax.translation.loading import experiment_of

WAITING = "waiting"
UNKNOWN = Cost()


@dataclasses.dataclass(frozen=True)
class Standing:
    """How far a run is.

    Attributes:
      number: in the plan.
      label: the name of its folder.
      state: waiting, running, paused, finished or failed.
      step: steps done.
      steps: steps in all.
      left: what it still has to do.
      cost: what that takes, as far as its own files tell.
      said: its last validation, or its loss before there is one.
      why: why it failed.
      options: all but its seed, by which runs that take the same time are known.
    """

    number: int
    label: str
    state: str
    step: int
    steps: int
    left: Work
    cost: Cost = UNKNOWN
    said: str = ""
    why: str = ""
    options: frozenset = frozenset()


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
    folder, options = root / label, plan.runs[label]
    train, now = config.train_of(options), states.read(folder)
    step, said, records = 0, "", []
    with contextlib.suppress(InputError):  # damaged, or nothing yet
        step = steps_done(folder)
        records = journal.read(folder)
    if records:
        metric = records[-1].get("metric", "perplexity")
        value = records[-1].get(f"valid_{metric}", math.nan)
        said = f"{metric} {value:.2f} at step {records[-1]['step']}"
    is_untested = label in plan.untested
    state, why = WAITING if step == 0 else PAUSED, ""
    if states.is_at_work(folder):
        state = RUNNING
        step = max(step, now.get("step", 0))
        if not said and "loss" in now:
            said = f"loss {now['loss']:.3f}"
    elif _is_done(folder, train, is_untested):
        state = FINISHED
    elif now.get("state") == FAILED:
        state, why = FAILED, f"{label} failed: {now.get('why', '')}"
    left = Work()
    if state not in (FINISHED, FAILED):
        left = _left(train, step, records, is_untested, is_begun=states.is_trained_now(folder))
    return Standing(
        plan.numbers[label],
        label,
        state,
        step,
        train.steps,
        left,
        _cost(now, records),
        said,
        why,
        frozenset((name, str(value)) for name, value in options.items() if name != "seed"),
    )


def _left(
    train: config.Train, step: int, records: Sequence[Any], is_untested: bool, is_begun: bool
) -> Work:
    """What a run still has to do that is neither finished nor failed."""
    validated = records[-1]["step"] if records else 0
    validations = -(-train.steps // train.valid_every) - validated // train.valid_every
    return Work(
        starts=int(not is_begun),
        compilations=int(not is_begun and step < train.steps),
        steps=max(0, train.steps - step),
        validations=validations if validated < train.steps else 0,
        evaluations=int(not is_untested),
    )


def _is_done(folder: Path, train: config.Train, is_untested: bool) -> bool:
    try:
        evaluated = is_untested or run_files.evaluation(folder, "test").is_file()
        return evaluated and finished(train, folder)
    except (InputError, OSError):  # a checkpoint is damaged, or has just been removed
        return False


def _cost(now: dict[str, Any], records: Sequence[dict[str, Any]]) -> Cost:
    """What the parts of a run took, from the record of its state and its journal."""
    cost = Cost(**{name: now[name] for name in states.TIMES if name in now})
    if not records or not records[-1].get("steps_per_second"):
        return cost
    last = records[-1]
    step = 1 / last["steps_per_second"]
    # The seconds of all steps have the compilation of their programs in them.
    compilation = max(0.0, last["seconds"] - last["step"] * step)
    return cost._replace(step=step, compilation=compilation)


def with_costs(runs: Sequence[Standing]) -> list[Standing]:
    """The runs with what they will take: as they took so far, else as those most like them took.

    Those are the ones with the most options in common. Until there has been an evaluation, it
    counts as a validation.
    """
    costs: dict[frozenset, list[Cost]] = {}
    for run in runs:
        costs.setdefault(run.options, []).append(run.cost)
    known = {options: Cost(*map(_mean, zip(*of, strict=True))) for options, of in costs.items()}
    usual = {options: _usual(options, known) for options in known}

    def filled(run: Standing) -> Cost:
        parts = zip(run.cost, usual[run.options], strict=True)
        return Cost(*(other if math.isnan(own) else own for own, other in parts))

    return [dataclasses.replace(run, cost=filled(run)) for run in runs]


def _usual(options: frozenset, known: Mapping[frozenset, Cost]) -> Cost:
    """What a run with such options takes, part by part; NaN where no run is known."""
    alike = {one: len(one & options) for one in known}

    def part(name: str) -> float:
        found = {one: getattr(cost, name) for one, cost in known.items()}
        most = max((alike[one] for one in found if not math.isnan(found[one])), default=0)
        return _mean(seconds for one, seconds in found.items() if alike[one] == most)

    cost = Cost(*map(part, Cost._fields))
    if math.isnan(cost.evaluation):
        cost = cost._replace(evaluation=cost.validation)
    return cost._replace(start=0.0) if math.isnan(cost.start) else cost


def _mean(values: Iterable[float]) -> float:
    """The mean of what is known; NaN if nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def seconds_left(runs: Sequence[Standing], places: int = 1) -> float:
    """Seconds until all runs are finished; NaN if that is not known.

    Args:
      runs: how far they are.
      places: runs at a time, if fewer are at work just now.
    """
    runs = sorted(with_costs(runs), key=lambda run: run.state != RUNNING)  # which are first
    durations = [run.cost.of(run.left) for run in runs if run.state not in (FINISHED, FAILED)]
    if any(map(math.isnan, durations)):
        return math.nan
    return makespan(durations, max(places, count(runs, RUNNING)))


def summary(runs: Sequence[Standing], places: int = 1) -> str:
    """One line on a sweep; arguments as of `seconds_left`."""
    parts = [f"{count(runs, FINISHED)} of {len(runs)} done"]
    parts += [f"{count(runs, s)} {s}" for s in (RUNNING, FAILED) if count(runs, s)]
    left = seconds_left(runs, places)
    if left > 0:  # and known
        parts.append(f"about {told(left)} left")
    return ", ".join(parts)


def are_over(runs: Iterable[Standing]) -> bool:
    """Whether no run is left to be made."""
    return all(run.state in (FINISHED, FAILED) for run in runs)


def count(runs: Iterable[Standing], state: str) -> int:
    """How many runs are in a state."""
    return sum(run.state == state for run in runs)
