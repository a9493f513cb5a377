"""How far the runs of a sweep are, and the time that they still need: told, and shown live."""

import contextlib
import dataclasses
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.files import is_terminal
from attn_jax.records import journal, run_files, states
from attn_jax.records.states import FAILED, FINISHED, PAUSED, RUNNING
from attn_jax.runs import plans
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


LOOK_EVERY = 2.0  # seconds between looks at the files of a sweep
SAY_EVERY = 60.0  # seconds between lines on the whole sweep, where there is no terminal


class Board:
    """What is known of a sweep, looked up anew now and then.

    Args:
      root: the folder of the sweep.
    """

    def __init__(self, root: Path):
        self._root = root
        self._at, self._runs = float("-inf"), []
        self._places = 1  # the most runs that were at work at a time; between two, one is missing

    def runs(self) -> Sequence[Standing]:
        """How far each run is."""
        with contextlib.suppress(InputError, OSError):  # then, what was known stays
            self._runs = standings(self._root, plans.read(self._root))
            self._places = max(self._places, count(self._runs, RUNNING))
        return self._runs

    def summary(self) -> str:
        """One line on the sweep."""
        return summary(self.runs(), self._places)

    def drawn(self) -> RenderableType:
        """The view, from what was known `LOOK_EVERY` seconds ago or less."""
        if time.monotonic() - self._at >= LOOK_EVERY:
            self.runs()
            self._at = time.monotonic()
        lines = Table.grid(padding=(0, 2))
        for run in with_costs(self._runs):
            if run.state == RUNNING:
                left = run.cost.of(run.left)
                lines.add_row(
                    run.label,
                    ProgressBar(run.steps, run.step, width=20),
                    f"{run.step}/{run.steps}",
                    f"{told(left)} left" if left > 0 else "",  # NaN if not known
                    run.said,
                )
        failures = [Text(run.why, "red") for run in self._runs if run.state == FAILED]
        return Group(lines, *failures, Text(summary(self._runs, self._places), "bold"))


@contextlib.contextmanager
def shown(board: Board) -> Iterator[Callable[[str], None]]:
    """Shows the live view while the body runs, if there is a terminal.

    Yields:
      What prints a line, above the view if there is one.
    """
    shown = is_terminal(sys.stdout)
    console = Console(highlight=False, markup=False, soft_wrap=True, force_terminal=shown)
    if not console.is_terminal:
        yield tell
        return
    with Live(get_renderable=board.drawn, console=console, refresh_per_second=2):
        yield console.print


def tell(line: str) -> None:
    """Prints a line and its newline at once, so that other threads cannot print between them."""
    print(f"{line}\n", end="", flush=True)


def watch(root: Path) -> None:
    """Shows a sweep that runs elsewhere, until no run of it is left to be made.

    Raises:
      InputError: there is no plan of a sweep in the folder.
    """
    if not plans.read(root).runs:
        raise InputError(f"{root} holds no plan of a sweep")
    board = Board(root)
    with shown(board) as say:
        follow(board, say, are_over)
    tell(board.summary())


def follow(
    board: Board, say: Callable[[str], None], are_over: Callable[[Sequence[Standing]], bool]
) -> None:
    """Says what changes in a sweep that runs elsewhere.

    Args:
      board: what is known of it.
      say: shows a line.
      are_over: whether its runs are over, so that there is nothing more to wait for.
    """
    before: dict[str, str] = {}
    said = float("-inf")
    while True:
        runs = board.runs()
        for line in changes(before, runs):
            say(line)
        before = {run.label: run.state for run in runs}
        if runs and are_over(runs):  # none where the files could not be read yet
            return
        if say is tell and time.monotonic() - said >= SAY_EVERY:
            say(board.summary())
            said = time.monotonic()
        time.sleep(LOOK_EVERY)


def changes(before: dict[str, str], runs: Iterable[Standing]) -> Iterator[str]:
    """A line for each run whose state has changed; at first, for those that have begun.

    Args:
      before: the state of each run at the last look; empty at first.
      runs: how far they are.
    """
    for run in runs:
        if run.state == before.get(run.label, WAITING):
            continue
        how = {RUNNING: f"at step {run.step} of {run.steps}", FAILED: run.why}.get(run.state)
        yield ": ".join(filter(None, [f"{run.state} {run.label}", how or run.said]))
