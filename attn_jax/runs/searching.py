"""Sweeps in which each system is tuned with the same budget before it is compared.

The trials are a sweep of their own, in the folder `trials` of the sweep. The setting of each system
that was best on validation is then trained with fresh seeds.
"""

import itertools
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment, Options
from attn_jax.errors import InputError
from attn_jax.files import reading, write_whole
from attn_jax.records import run_files, strict_json
from attn_jax.runs import planning, unused
from attn_jax.runs.candidates import Outcome, outcomes
from attn_jax.runs.plans import Plan
from attn_jax.runs.sweeping import extended, planned_sweep, work
from attn_jax.runs.trials import Trials
from attn_jax.translation.loading import Place


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
    if len({given.get("seed", 0) for given in of_systems.values()}) > 1:
        raise InputError("each system is tuned for all seeds: give search.seeds, not grid.seed")
    replaced = {n: value for n, value in config.given(options).items() if n in search.space}
    if replaced and not isinstance(options, Experiment):
        print(f"the search replaces {config.told(replaced)}")
    tried = {label: _trials_of(label, of_systems[label], search) for label in of_systems}
    final = {label: _finals_of(label, of_systems[label], search) for label in of_systems}
    for run in itertools.chain(*tried.values(), *final.values()):
        planning.check_name(run)
    _check_number(run_files.search(planned.root), tried)
    trial_runs = {r: config.texts(given) for runs in tried.values() for r, given in runs.items()}
    untested = Plan(trial_runs, frozenset(trial_runs))
    trials = extended(run_files.trials(planned.root), untested)
    unused.warn(trials.wanted.values(), search.space)
    found = outcomes(trials, jobs, executor)
    for trial, outcome in found.items():
        if not outcome.ended:  # such as one that diverged
            print(f"of the trials, {trial} failed: {outcome.why}", flush=True)
    best = {label: _best(label, {trial: found[trial] for trial in tried[label]}) for label in tried}
    runs = {
        label: {
            run: {**given, **tried[label][best[label]], "seed": seed}
            for run, seed in final[label].items()
        }
        for label, given in of_systems.items()
    }
    plan = Plan({r: config.texts(given) for each in runs.values() for r, given in each.items()})
    chosen = extended(planned.root, plan)
    told = {
        label: {
            "trials": {
                trial: _told(found[trial], config.texts({n: given[n] for n in search.space}))
                for trial, given in tried[label].items()
            },
            "best": best[label],
            "runs": list(runs[label]),
        }
        for label in of_systems
    }
    text = strict_json.dumps({"space": dict(search.space), "systems": told}, indent=1)
    write_whole(run_files.search(planned.root), text + "\n")
    return work(chosen, jobs, executor)


def _trials_of(label: str, given: Mapping[str, Any], search: Trials) -> dict[str, dict[str, Any]]:
    """The options of the trials of a system, by the names of their folders."""
    drawn = search.drawn(int(given.get("seed", 0)))
    return {
        f"{label},trial={number}": {**given, **each} for number, each in enumerate(drawn, start=1)
    }


def _finals_of(label: str, given: Mapping[str, Any], search: Trials) -> dict[str, int]:
    """The seeds of the runs with the best setting, which no trial has, by their names."""
    first = int(given.get("seed", 0))
    return {f"{label},seed={seed}": seed for seed in range(first, first + search.seeds)}


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


def _best(label: str, trials: Mapping[str, Outcome]) -> str:
    """The trial of a system that was best on validation; of equal ones, the first.

    Raises:
      InputError: all have failed.
    """
    ended = [trial for trial, outcome in trials.items() if outcome.ended]
    if not ended:
        raise InputError(f"all trials of {label} have failed")
    return max(ended, key=lambda trial: trials[trial].goodness)
