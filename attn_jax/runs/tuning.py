"""Sweeps in which each system is tuned with the same budget before it is compared.

Candidates are runs that are compared on validation; they leave the test alone, and may fail. The
best of each system is trained with several seeds. `tuned_sweep` draws candidates at random, its
trials, into the folder `trials` of the sweep; `compare` has those of a grid.
"""

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_jax import config
from attn_jax.config import Experiment, Options
from attn_jax.errors import InputError, choose
from attn_jax.files import reading, write_whole
from attn_jax.records import run_files, states, strict_json
from attn_jax.records.progress import Goodness
from attn_jax.runs import plans
from attn_jax.runs.checks import warn_of_unused
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import is_trained, tell
from attn_jax.runs.sweeping import Sweep, extended, planned_sweep, work
from attn_jax.runs.validation import best_validation
from attn_jax.settings.grammar import split
from attn_jax.translation.loading import Place

RANGES = {
    "uniform": "uniform(LOW,HIGH)",
    "log": "log(LOW,HIGH), uniform in the logarithm",
    "choice": "choice(A,B,...)",
}
# Options of data that leave the sentence pairs as they are.
OF_TOKENS = (
    "data.words",
    "data.min_count",
    "data.subwords",
    "data.character_coverage",
    "data.vocabulary",
)
FRESH = 1000  # trials have seeds from this one on, added to that of the experiment; others before


class Outcome(NamedTuple):
    """What became of a candidate.

    Attributes:
      steps: done.
      why: it failed; empty if it has ended.
      metric: of its best validation; empty if it failed.
      value: of the metric.
      goodness: of that validation.
    """

    steps: int
    why: str = ""
    metric: str = ""
    value: float = 0.0
    goodness: Goodness = (-math.inf, -math.inf)

    @property
    def ended(self) -> bool:
        """Whether it was trained to its end."""
        return bool(self.metric)


def outcomes(candidates: Sweep, jobs: int, executor: Executor | None = None) -> dict[str, Outcome]:
    """Makes all candidates; returns what became of each, and tells which failed.

    Raises:
      InputError: one is neither finished nor failed.
    """
    error, found = finish(candidates, jobs, executor), {}
    for label, run in candidates.wanted.items():
        folder = candidates.root / label
        said, steps = states.read(folder), steps_done(folder)
        if is_trained(folder, run):
            criterion, record = best_validation(folder)
            value, goodness = criterion.value(record), criterion.goodness(record)
            found[label] = Outcome(steps, "", criterion.metric, value, goodness)
        elif said.get("state") == states.FAILED:  # such as one that diverged
            found[label] = Outcome(steps, str(said.get("why")))
            tell(f"not chosen: {label} failed: {said.get('why')}")
        else:
            raise error or InputError(f"{label} is not finished: give the same command again")
    return found


def finish(todo: Sweep, jobs: int, executor: Executor | None = None) -> InputError | None:
    """Makes runs until all are finished or have failed; returns why some have, if any have."""
    try:
        work(todo, jobs, executor)
    except InputError as failed:
        return failed
    return None


def best(of_systems: Mapping[str, Iterable[str]], found: Mapping[str, Outcome]) -> dict[str, str]:
    """The candidate of each system that was best on validation; of equal ones, the first.

    Systems of which all have failed are left out.

    Args:
      of_systems: the candidates of each.
      found: what became of them.
    """
    ended = {
        system: [label for label in candidates if found[label].ended]
        for system, candidates in of_systems.items()
    }
    return {
        system: max(labels, key=lambda label: found[label].goodness)
        for system, labels in ended.items()
        if labels
    }


@dataclasses.dataclass(frozen=True)
class Trials:
    """How each system is tuned before it is compared.

    All trials are drawn beforehand, so that they may be made in any order.

    Attributes:
      number: of trials of each system.
      space: what is drawn for each option, as text: `{"train.learning_rate": "log(1e-4,1e-2)"}`.
      seeds: runs of each system with the setting that was best on validation.

    Raises:
      InputError: a number is too low, a text is none of `RANGES`, or trials with other values of an
        option could not be compared.
    """

    number: int
    space: Mapping[str, str]
    seeds: int = 3

    def __post_init__(self) -> None:
        whole = all(isinstance(number, Integral) for number in (self.number, self.seeds))
        if not whole or self.number < 1 or not 0 < self.seeds <= FRESH:
            raise InputError(f"search.trials must be 1 or more, search.seeds from 1 to {FRESH}")
        if not self.space:
            raise InputError(
                "nothing is searched: give search.train.learning_rate='log(1e-4,1e-2)'"
            )
        for name in self.space:
            if why := _unsearchable(name):
                raise InputError(f"search.{name}: {why}")
            for u in np.linspace(0, 1, 50, endpoint=False):
                config.given({name: self._at(name, float(u))})

    def drawn(self, seed: int) -> list[dict[str, Any]]:
        """The options of each trial; with more of them, the first ones stay the same.

        Args:
          seed: of the experiment.
        """
        draws = np.random.default_rng(seed).random((self.number, len(self.space)))
        return [
            {name: self._at(name, float(u)) for name, u in zip(self.space, row, strict=True)}
            | {"seed": seed + FRESH + nth}
            for nth, row in enumerate(draws)
        ]

    def _at(self, name: str, u: float) -> Any:
        """The value of an option at a place in [0, 1) of its range."""
        entry, text = choose(config.known(), name, "option"), self.space[name]
        try:
            value = _value(f"{text}", u)
        except ValueError as error:
            told = "; ".join(RANGES.values())
            raise InputError(f"search.{name}={text} is no range: {told} ({error})") from error
        return round(value) if entry.type is int and isinstance(value, float) else value


def _unsearchable(name: str) -> str:
    """Why an option cannot be searched; empty if it can."""
    if name == "seed":
        return "each trial has its own seed in any case"
    if name in ("label", "train.steps", "train.metric"):
        return "it is the same for all trials, which are compared"
    if name.startswith("data.") and name not in OF_TOKENS:
        return "all trials have the same sentence pairs, on which they are compared"
    return ""


def _value(text: str, u: float) -> float | str:
    """The value at a place in [0, 1) of a range; numbers have four digits."""
    of = re.fullmatch(r"\s*(\w+)\s*\((.+)\)\s*", text)
    if of is None:
        raise ValueError("it has no values in brackets")
    choose(RANGES, of[1], "range")
    values = [value.strip() for value in split(of[2])]  # as an option takes each
    if of[1] == "choice":
        return values[int(u * len(values))]
    try:
        low, high = map(float, values)
    except ValueError:
        raise ValueError("it takes two numbers") from None
    if not low < high:
        raise ValueError("its first number must be below its second")
    if of[1] == "log" and low <= 0:
        raise ValueError("its numbers must be above 0")
    value = low * (high / low) ** u if of[1] == "log" else low + (high - low) * u
    return min(max(float(f"{value:.4g}"), low), high)


def tuned_sweep(
    options: Options,
    root: Place,
    search: Trials,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    systems: Sequence[Mapping[str, Any]] = (),
    jobs: int = 0,
    executor: Executor | None = None,
) -> list[Path]:
    """Tunes every system of a sweep with the same trials, and trains the best setting anew.

    The same call again skips finished runs and resumes the others.

    Args:
      options: of all runs, as in `train`; the steps of a trial are those of a run.
      root: the folder.
      search: what is tried.
      grid: as in `sweep`.
      systems: as in `sweep`.
      jobs: as in `sweep`.
      executor: as in `sweep`.

    Returns:
      The folders of the runs with the best settings.

    Raises:
      InputError: as in `sweep`; or no trial of a system has ended. Other trials may fail, such as
        those that diverge.
      KeyboardInterrupt: as in `sweep`.
    """
    for name in search.space:
        if any(name in varied for varied in (grid or {}, *systems)):
            raise InputError(
                f"{name} is searched, and is of the grid or a system: take one of them"
            )
    planned = planned_sweep(options, root, grid or {}, systems)
    of_systems = {label: planned.plan.runs[label] for label in planned.wanted}
    first, *others = {int(given.get("seed", 0)) for given in of_systems.values()}
    if others:
        raise InputError("each system is tuned for all seeds: give search.seeds, not grid.seed")
    replaced = {n: value for n, value in config.given(options).items() if n in search.space}
    if replaced and not isinstance(options, Experiment):
        print(f"the search replaces {config.told(replaced)}")
    drawn = search.drawn(first)
    tried = {
        label: {f"{label},trial={n}": {**given, **each} for n, each in enumerate(drawn, start=1)}
        for label, given in of_systems.items()
    }
    seeds = range(first, first + search.seeds)  # which no trial has
    for label in of_systems:
        for name in (*tried[label], *(f"{label},seed={seed}" for seed in seeds)):
            plans.check_name(name)
    _check_number(run_files.search(planned.root), tried)
    trial_runs = {r: config.texts(given) for runs in tried.values() for r, given in runs.items()}
    trials = extended(run_files.trials(planned.root), Plan(trial_runs, frozenset(trial_runs)))
    warn_of_unused(trials.wanted.values(), search.space)
    found = outcomes(trials, jobs, executor)
    chosen = best(tried, found)
    if failed := [label for label in tried if label not in chosen]:
        raise InputError(f"all trials of {failed[0]} have failed")
    runs = {
        label: {f"{label},seed={seed}": trial_runs[trial] | {"seed": str(seed)} for seed in seeds}
        for label, trial in chosen.items()
    }
    todo = extended(
        planned.root, Plan({n: run for each in runs.values() for n, run in each.items()})
    )
    told = {
        label: {
            "trials": {
                trial: _told(found[trial], {name: given[name] for name in search.space})
                for trial, given in tried[label].items()
            },
            "best": chosen[label],
            "runs": list(runs[label]),
        }
        for label in of_systems
    }
    text = strict_json.dumps({"space": dict(search.space), "systems": told}, indent=1)
    write_whole(run_files.search(planned.root), text + "\n")
    return work(todo, jobs, executor)


def _check_number(file: Path, tried: Mapping[str, Collection[str]]) -> None:
    """Raises InputError if a system has had another number of trials, and its best has been found.

    With more trials, another setting may be the best, of which the runs are not.
    """
    if not file.exists():
        return
    with reading(file):
        systems = strict_json.loads(file.read_text("utf-8"))["systems"]
    for label in tried.keys() & systems.keys():
        had, wanted = len(systems[label]["trials"]), len(tried[label])
        if had != wanted:
            raise InputError(
                f"{label} has had {had} trials, and the best setting is trained with fresh seeds: "
                f"take another folder for {wanted}"
            )


def _told(outcome: Outcome, options: Mapping[str, Any]) -> dict[str, Any]:
    """A trial as `search.json` has it; one that has failed has no value."""
    told: dict[str, Any] = {"steps": outcome.steps, "options": options}
    if outcome.ended:
        told |= {name: getattr(outcome, name) for name in ("metric", "value", "goodness")}
    return told
