"""Which mechanism is best for some data: what fits into a time is compared, with an answer."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

from attn_jax import config
from attn_jax.config import Options
from attn_jax.errors import InputError
from attn_jax.files import path_of
from attn_jax.records import run_files
from attn_jax.reporting.answered import Answer, write_answer
from attn_jax.reporting.report import report
from attn_jax.runs import agenda
from attn_jax.runs.agenda import SEED, Agenda
from attn_jax.runs.folder import alone
from attn_jax.runs.proposing import proposed
from attn_jax.runs.sizes import SYSTEMS
from attn_jax.runs.slots import slots
from attn_jax.runs.stages import chosen, confirm, missing, search, seeds_left, tested
from attn_jax.runs.view import tell
from attn_jax.startup import start_training
from attn_jax.translation.loading import Place


def compare(
    options: Options,
    root: Place,
    *,
    hours: float = 2.0,
    systems: Sequence[Mapping[str, Any]] = SYSTEMS,
    seeds: int = 3,
    jobs: int = 0,
) -> Answer:
    """Finds the best attention mechanism for some data, in a time that is given.

    Sizes are chosen for the data, and each system gets the same learning rates and dropouts. What
    does not fit into the time is said and left out before the first run. The same call goes on
    where it was stopped, with what it decided at first.

    Args:
      options: the data, such as `{"data.train": …, "data.valid": …, "data.test": …}`, and others
        that are then the same for all.
      root: the folder for the runs, the report and the answer.
      hours: the time that it may take, from the call on.
      systems: the options of each system, the most important one first.
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
        is_new = agenda.read(root) is None
        todo = agenda_of(options, root, hours, systems, seeds, jobs, left)
        if is_new:
            agenda.record(root, todo)
        runs = tested(root, todo)
        if not runs:
            before = left()
            best = search(root, todo, jobs)
            # Of a comparison that goes on, nothing is known of the time that it took before.
            fits = seeds_left(todo, before - left(), left()) if is_new else todo.seeds
            runs = chosen(todo, best, fits)
        failed = confirm(root, runs, jobs)
        settings = [run.label for run in runs if run.seed == 0]
        planned = [*todo.words, *missing(todo, runs)]
        answer = write_answer(report(root), run_files.answer(root), planned, settings)
    if failed:
        raise InputError(f"{failed}; {answer.page} is the answer without them")
    return answer


def agenda_of(
    options: Options,
    root: Place,
    hours: float,
    systems: Sequence[Mapping[str, Any]],
    seeds: int,
    jobs: int,
    left: Callable[[], float] | None = None,
) -> Agenda:
    """What `compare` would do, or what was decided when it began, which is told; writes nothing.

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
    wanted = {
        "options": config.texts(given),
        "systems": [_labelled(config.texts(config.given(system))) for system in systems],
        "hours": _hours(hours),
        "seeds": seeds,
    }
    asked = json.loads(json.dumps(wanted))  # as it is written and read
    known = agenda.read(root)
    if known is not None:
        agenda.check_same(root, known, asked)
        for line in known.words:
            tell(line)
        return known
    if run_files.plan(root).exists() or any(root.rglob(run_files.flags(root).name)):
        raise InputError(f"{root} holds a run or a sweep: take another folder to compare in")
    return proposed(root, asked, slots(jobs), left or _clock(hours), tell)


def _labelled(system: dict[str, Any]) -> dict[str, Any]:
    """A system with a label, by which it is called whatever its setting."""
    words = (
        str(value) if name == "model.score" else f"{name.removeprefix('model.')}={value}"
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
