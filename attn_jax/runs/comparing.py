"""Which mechanism is best for some data: what fits into a time is compared, with an answer."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Options
from attn_jax.errors import InputError
from attn_jax.files import path_of, reading, write_whole
from attn_jax.records import run_files
from attn_jax.reporting.report import Answer, report, write_answer
from attn_jax.runs import plans
from attn_jax.runs.agenda import SEED, TOO_FEW, Agenda, Runs, decided, name_of, with_seeds
from attn_jax.runs.executor import slots
from attn_jax.runs.folder import alone
from attn_jax.runs.plans import Plan
from attn_jax.runs.standing import tell
from attn_jax.runs.sweeping import extended
from attn_jax.runs.tuning import best, finish, outcomes
from attn_jax.startup import start_training
from attn_jax.translation.loading import Place

SOME = 0.95  # share of the time that is left for runs at last: a report takes the rest


def compare(
    options: Options,
    root: Place,
    *,
    hours: float = 2.0,
    systems: Sequence[Mapping[str, Any]] = (),
    seeds: int = 3,
    jobs: int = 0,
) -> Answer:
    """Finds the best attention mechanism for some data, in a time that is given.

    Sizes are chosen for the data, and each system gets as many learning rates and dropouts. What
    does not fit into the time is said and left out before the first run. The same call goes on
    where it was stopped, with what it decided at first.

    Args:
      options: the data, such as `{"data.train": …, "data.valid": …, "data.test": …}`, and others
        that are then the same for all.
      root: the folder for the runs, the report and the answer.
      hours: the time that it may take, from the call on.
      systems: the options of each system, the most important one first; by default, the usual
        ones (`runs/defaults.py`).
      seeds: of the best setting of each system.
      jobs: as in `sweep`.

    Returns:
      The answer and the report on which it rests, which are also written into the folder.

    Raises:
      InputError: options, folder or data cannot be used, the time is too short for anything, the
        folder holds another comparison, or runs have failed.
      KeyboardInterrupt: it was interrupted; its runs have saved, and the same call goes on.
    """
    root, left = path_of(root), _clock(hours)
    with alone(root):
        is_new = read(root) is None
        todo = agenda_of(options, root, hours, systems, seeds, jobs, left)
        if is_new:
            text = json.dumps(dataclasses.asdict(todo), indent=1)
            write_whole(run_files.comparison(root), text + "\n")
        plan = plans.read(root)
        runs = {label: {**run} for label, run in plan.runs.items() if label not in plan.untested}
        if not runs:
            runs = _search(root, todo, jobs, left, is_new)
        failed = finish(extended(root, Plan(runs)), jobs)
        settings = [label for label in runs if label.endswith(f",{SEED}=0")]
        planned = [*todo.words, *_missing(todo, runs)]
        answer = write_answer(report(root), run_files.answer(root), planned, settings)
    if failed:
        raise InputError(f"{failed}; {answer.page} is the answer without them")
    return answer


def _search(root: Path, todo: Agenda, jobs: int, left: Callable[[], float], is_new: bool) -> Runs:
    """Makes the runs of the first stage; returns those of the second.

    A setting that fails is not chosen, and a system of which all fail is left out.

    Raises:
      InputError: runs are not finished, or fewer than two systems are left.
    """
    began, seeds = left(), todo.seeds
    candidates = {system: with_seeds(runs, 1) for system, runs in todo.candidates.items()}
    made = {label: run for runs in candidates.values() for label, run in runs.items()}
    found = outcomes(extended(root, Plan(made, frozenset(made))), jobs)
    chosen = best(candidates, found)
    if len(chosen) < 2:
        raise InputError("; ".join([TOO_FEW, *filter(None, (one.why for one in found.values()))]))
    if is_new:  # of one that goes on, it is not known what it took before
        slower = (began - left()) / todo.seconds[0]
        while seeds > 1 and slower * todo.seconds[seeds] > SOME * left():
            seeds -= 1
        if seeds < todo.seeds:
            tell(
                f"runs took {slower:.1f} times as long as was measured: {seeds} instead of "
                f"{todo.seeds} seeds, to end in time"
            )
    for label in chosen.values():
        tell(f"the best on validation: {label}")
    kept = {label.removesuffix(f",{SEED}=0") for label in chosen.values()}
    settings = {
        label: run
        for runs in todo.candidates.values()
        for label, run in runs.items()
        if label in kept
    }
    return with_seeds(settings, seeds)


def _missing(todo: Agenda, runs: Mapping[str, Any]) -> list[str]:
    """A line on each system that the first stage has left out."""
    return [
        f"{system.removeprefix('label=')} is not in the answer: each of its settings failed"
        for system, candidates in todo.candidates.items()
        if not with_seeds(candidates, 1).keys() & runs.keys()
    ]


def agenda_of(
    options: Options,
    root: Place,
    hours: float,
    systems: Sequence[Mapping[str, Any]],
    seeds: int,
    jobs: int,
    left: Callable[[], float] | None = None,
) -> Agenda:
    """What `compare` would do, or what was decided when it began, which is told.

    Raises:
      InputError: as in `compare`.
    """
    start_training()
    root, given = path_of(root), config.given(options)
    if not (_hours(hours) > 0 and isinstance(seeds, Integral) and seeds >= 1):
        raise InputError("a comparison needs some hours and at least one seed")
    if "data.train" in given:
        given = {"data.name": "parallel"} | given
    if SEED in given:
        raise InputError(f"a comparison has seeds of its own: leave out seed={given[SEED]}")
    asked = {
        "options": config.texts(given),
        "systems": [_labelled(config.texts(config.given(system))) for system in systems],
        "hours": _hours(hours),
        "seeds": int(seeds),
    }
    known = read(root)
    if known is not None:
        _check_same(root, known, asked)
        for line in known.words:
            tell(line)
        return known
    if run_files.plan(root).exists() or any(root.rglob(run_files.flags(root).name)):
        raise InputError(f"{root} holds a run or a sweep: take another folder to compare in")
    return decided(root, asked, slots(jobs), left or _clock(hours))


def read(root: Path) -> Agenda | None:
    """The agenda in the folder of a comparison; None if there is none.

    Raises:
      InputError: it is damaged.
    """
    file = run_files.comparison(root)
    if not file.exists():
        return None
    with reading(file, ": take another folder"):
        return Agenda(**json.loads(file.read_text("utf-8")))


def _check_same(root: Path, known: Agenda, asked: Mapping[str, Any]) -> None:
    """Raises InputError if the comparison in a folder was asked for something else."""

    def brief(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(map(name_of, value)) or "the usual ones"
        return (config.told(value) or "none") if isinstance(value, dict) else str(value)

    for name, value in asked.items():
        if known.asked[name] != value:
            raise InputError(
                f"{root} holds a comparison with other {name} ({brief(known.asked[name])}; now "
                f"{brief(value)}): the command that began it goes on with it, or take another "
                "folder"
            )


def _labelled(system: dict[str, str]) -> dict[str, str]:
    """A system with a label, by which it is called whatever its setting."""
    words = (
        value if name == "model.score" else f"{name.removeprefix('model.')}={value}"
        for name, value in system.items()
    )
    return {"label": ", ".join(words)} | system


def _hours(given: float) -> float:
    """A number of hours, which may be text.

    Raises:
      InputError: it is neither.
    """
    try:
        return float(given)
    except (TypeError, ValueError):
        raise InputError(f"hours must be a number, got {given!r}") from None


def _clock(hours: float) -> Callable[[], float]:
    """What says how many seconds are left of some hours from now on."""
    end = time.monotonic() + 3600 * _hours(hours)
    return lambda: end - time.monotonic()
