"""Sweeps in which each system is tuned with the same budget before it is compared.

The trials are a sweep of their own, in the folder `trials` of the sweep. The setting of each system
that was best on validation is then trained with fresh seeds.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment, Options
from attn_jax.errors import InputError
from attn_jax.files import write_whole
from attn_jax.records import claims, run_files, strict_json
from attn_jax.runs import unused
from attn_jax.runs.engines import Engine
from attn_jax.runs.folder import steps_done
from attn_jax.runs.plans import Plan
from attn_jax.runs.sweeping import Sweep, extended, planned_sweep, work
from attn_jax.runs.trials import Trials
from attn_jax.runs.validation import best_validation
from attn_jax.runs.working import is_trained
from attn_jax.translation.loading import Place


def tuned_sweep(
    options: Options,
    root: Place,
    search: Trials,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    systems: Sequence[Mapping[str, Any]] = (),
    jobs: int = 0,
    executor: Engine | None = None,
    may_be_idle: Collection[str] = (),
) -> list[Path]:
    """Tunes every system of a sweep with the same trials, and trains the best setting anew.

    The same call again skips finished runs and resumes the others. Others may work on the trials,
    which are a sweep in the folder `trials`, and then on the runs: see `join_sweep`.

    Args:
      options: of all runs, as in `train`; the steps of a trial are those of a run.
      root: the folder.
      search: what is tried.
      grid: as in `sweep`.
      systems: as in `sweep`.
      jobs: as in `sweep`.
      executor: as in `sweep`.
      may_be_idle: as in `sweep`.

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
    planned = planned_sweep(options, root, grid or {}, systems, may_be_idle)
    of_systems = {label: planned.plan.runs[label] for label in planned.wanted}
    if len({given.get("seed", 0) for given in of_systems.values()}) > 1:
        raise InputError("each system is tuned for all seeds: give search.seeds, not grid.seed")
    replaced = {n: value for n, value in config.given(options).items() if n in search.space}
    if replaced and not isinstance(options, Experiment):
        print(f"the search replaces {config.told(replaced)}")
    tried = {label: _trials_of(label, of_systems[label], search) for label in of_systems}
    trial_runs = {run: given for runs in tried.values() for run, given in runs.items()}
    untested = Plan(trial_runs, frozenset(trial_runs))
    trials = extended(run_files.trials(planned.root), untested)
    idle = [(run, trials.plan.runs[label]) for label, run in trials.wanted.items()]
    unused.check(idle, {*search.space} - {*may_be_idle})
    try:
        work(trials, jobs, executor)
    except InputError as error:
        if not all(_is_over(trials, label) for label in trials.wanted):
            raise
        print(f"of the trials, {error}", flush=True)  # such as those that diverge
    found = {label: _outcomes(trials, runs, search.space) for label, runs in tried.items()}
    best = {label: _best(label, outcomes) for label, outcomes in found.items()}
    runs = {
        label: {
            f"{label},seed={seed}": config.merged(given, tried[label][best[label]] | {"seed": seed})
            for seed in _fresh(given, search)
        }
        for label, given in of_systems.items()
    }
    final = Plan({run: given for each in runs.values() for run, given in each.items()})
    chosen = extended(planned.root, final)
    systems_told = {
        label: {"trials": found[label], "best": best[label], "runs": list(runs[label])}
        for label in of_systems
    }
    told = {"space": dict(search.space), "systems": systems_told}
    write_whole(run_files.search(planned.root), strict_json.dumps(told, indent=1) + "\n")
    return work(chosen, jobs, executor)


def _trials_of(label: str, given: Mapping[str, Any], search: Trials) -> dict[str, dict[str, Any]]:
    """The options of the trials of a system, by the names of their folders."""
    drawn = search.drawn(int(given.get("seed", 0)))
    return {
        f"{label},trial={number}": config.merged(given, each)
        for number, each in enumerate(drawn, start=1)
    }


def _fresh(given: Mapping[str, Any], search: Trials) -> range:
    """Seeds that no trial has."""
    first = int(given.get("seed", 0))
    return range(first, first + search.seeds)


def _outcomes(
    trials: Sweep, tried: Mapping[str, Mapping[str, Any]], space: Collection[str]
) -> dict[str, dict[str, Any]]:
    """What became of the trials of a system; of those that have failed, without a value.

    Args:
      trials: those of all systems.
      tried: the options of those of this one.
      space: the options that were drawn.

    Raises:
      InputError: one is neither finished nor failed.
    """
    found = {}
    for label, given in tried.items():
        folder = trials.root / label
        outcome: dict[str, Any] = {"steps": steps_done(folder)}
        outcome["options"] = {name: given[name] for name in space}
        if is_trained(folder, trials.wanted[label]):
            criterion, record = best_validation(folder)
            outcome |= {"metric": criterion.metric, "value": criterion.value(record)}
            outcome["goodness"] = criterion.goodness(record)
        elif not _is_over(trials, label):
            raise InputError(f"{label} is not over: the same command goes on once all trials are")
        found[label] = outcome
    return found


def _is_over(trials: Sweep, label: str) -> bool:
    """Whether a trial is finished or has failed."""
    if is_trained(trials.root / label, trials.wanted[label]):
        return True
    claim = claims.last(run_files.claims(trials.root, label))
    return claim is not None and claim.state == claims.FAILED


def _best(label: str, outcomes: Mapping[str, Mapping[str, Any]]) -> str:
    """The trial of a system that was best on validation; of equal ones, the first.

    Raises:
      InputError: all have failed.
    """
    ended = [trial for trial, outcome in outcomes.items() if "value" in outcome]
    if not ended:
        raise InputError(f"all trials of {label} have failed")
    return max(ended, key=lambda trial: outcomes[trial]["goodness"])
