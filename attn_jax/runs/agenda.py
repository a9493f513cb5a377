"""What a comparison is to do in its time: decided once, before its first run."""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.files import write_whole
from attn_jax.records import run_files
from attn_jax.runs import plans
from attn_jax.runs.checks import warn_of_unused
from attn_jax.runs.defaults import (
    DROPOUT,
    EVERY,
    FACTORS,
    RATE,
    STEPS,
    Sizes,
    Survey,
    paced,
    sizes_for,
    suited,
    survey,
    systems_for,
)
from attn_jax.runs.executor import Slot
from attn_jax.runs.measuring import Cost, Work, makespan, measured, told
from attn_jax.runs.standing import tell
from attn_jax.runs.sweeping import check_all

SEED = "seed"
# Share of the time that is planned: runs may be slower than measured, and the report takes some.
USED = 0.85
MEASURING = 0.2  # share of the time after which nothing more is measured
GRIDS = ((3, 2), (2, 2), (2, 1), (1, 1))  # numbers of learning rates and of dropouts
LEAST_STEPS = 50  # % of those that suit the data: with fewer, systems have not learnt enough
TOO_FEW = "a comparison needs two systems that can be trained"

Runs = dict[str, dict[str, Any]]  # the options of runs, by the names of their folders


@dataclasses.dataclass(frozen=True)
class Agenda:
    """What a comparison is to do.

    Attributes:
      asked: what it was asked for, which the same command asks for again.
      candidates: of each system, runs without a seed, one for each setting.
      seeds: of the chosen setting of each system.
      words: what was said of all this.
      seconds: that the candidates take, and then all runs with 1, 2, … seeds, as measured.
    """

    asked: dict[str, Any]
    candidates: dict[str, Runs]
    seeds: int
    words: list[str]
    seconds: list[float]


class Extent(NamedTuple):
    """How much is compared.

    Attributes:
      systems: the first ones of the list.
      grid: numbers of learning rates and dropouts, of which the best on validation are chosen.
      seeds: of the chosen setting, the first of which the settings have had.
      steps: of each run.
    """

    systems: int
    grid: tuple[int, int]
    seeds: int
    steps: int


class Question(NamedTuple):
    """What is compared, before it is known how much of it fits into the time.

    Attributes:
      given: options for all runs, as they were asked for.
      systems: the options of each.
      found: the data.
      sizes: that suit them.
    """

    given: dict[str, Any]
    systems: Sequence[Mapping[str, Any]]
    found: Survey
    sizes: Sizes

    @property
    def most(self) -> Extent:
        """All of it, with one seed."""
        steps = int(self.given.get(STEPS, self.sizes.steps))
        return Extent(len(self.systems), GRIDS[0], 1, steps)

    def settings(self, grid: tuple[int, int]) -> dict[str, tuple]:
        """What is tried of each system, the most promising first: factors of its rate, dropouts."""
        rates, dropouts = grid
        tried = {RATE: FACTORS[:rates], DROPOUT: self.sizes.dropouts[:dropouts]}
        taken = set(self.given).union(*self.systems)
        return {name: values for name, values in tried.items() if name not in taken}

    def candidates(self, extent: Extent) -> dict[str, Runs]:
        """The runs of each system without a seed, one for each setting."""
        systems = []
        for system in self.systems:
            usual = self.found.options | self.sizes.options | paced(system, extent.steps)
            systems.append({n: v for n, v in usual.items() if n not in self.given} | {**system})
        tried = self.settings(extent.grid)
        runs = {}
        for label, options in plans.plan(systems, {}, self.given).items():
            runs[label] = {}
            for values in itertools.product(*tried.values()):
                setting = dict(zip(tried, values, strict=True))
                if RATE in setting:
                    setting[RATE] = float(f"{setting[RATE] * float(options[RATE]):.4g}")
                name = ",".join([label, *(f"{n}={value}" for n, value in setting.items())])
                runs[label][name] = options | setting
        return dict(itertools.islice(runs.items(), extent.systems))

    def seconds(self, extent: Extent, costs: Sequence[Cost], places: int) -> tuple[float, float]:
        """The time in which all systems get their settings, and that of the test.

        Args:
          extent: how much is compared.
          costs: of each system.
          places: runs at a time.
        """
        every = int(self.given.get(EVERY, paced({}, extent.steps)[EVERY]))
        run = Work(1, 1, extent.steps, -(-extent.steps // every))
        settings = math.prod(map(len, self.settings(extent.grid).values()))
        # The run with the first seed is there, and only tested; programs are in the cache.
        others = [run._replace(compilations=0, evaluations=1)] * (extent.seeds - 1)
        stages = [run] * settings, [Work(starts=1, evaluations=1), *others]
        first, second = (
            makespan((cost.of(one) for cost in costs[: extent.systems] for one in works), places)
            for works in stages
        )
        return first, second


def with_seeds(runs: Runs, seeds: int) -> Runs:
    """Runs with each of some seeds."""
    return {
        f"{label},{SEED}={seed}": {**options, SEED: seed}
        for label, options in runs.items()
        for seed in range(seeds)
    }


def smaller(most: Extent, least_steps: int) -> Iterator[Extent]:
    """All of a comparison, then ever less of it: settings, seeds, systems, and steps at last.

    A system with fewer steps is a worse one; what is left out is only not known.

    Args:
      most: all of it.
      least_steps: the fewest steps of a run, in % of all.
    """
    one = most
    for grid in GRIDS:
        yield (one := one._replace(grid=grid))
    for seeds in range(most.seeds - 1, 0, -1):
        yield (one := one._replace(seeds=seeds))
    for systems in range(most.systems - 1, 1, -1):
        yield (one := one._replace(systems=systems))
    for share in range(95, least_steps - 1, -5):
        yield one._replace(steps=max(1, most.steps * share // 100))


def decided(
    root: Path,
    asked: Mapping[str, Any],
    places: Sequence[Slot],
    seconds_left: Callable[[], float],
) -> Agenda:
    """Looks at the data, measures each system, decides what fits into the time, and tells it.

    Only what was measured is written into the folder, for another call.

    Args:
      root: the folder of the comparison.
      asked: `options`, `systems`, `hours` and `seeds`.
      places: where runs are made.
      seconds_left: how much time is left.

    Raises:
      InputError: options, systems or data cannot be used, or not even the least fits.
    """
    words: list[str] = []

    def say(line: str) -> None:
        words.append(line)
        tell(line)

    found = survey(asked["options"])
    sizes = sizes_for(found.pairs["train"])
    question = Question(asked["options"], asked["systems"] or systems_for(sizes), found, sizes)
    for line in (*found.told(), *_about(question)):
        say(line)
    question, runs = _possible(root, question, say)
    least_steps = 100 if STEPS in question.given else LEAST_STEPS
    *_, fewest = smaller(question.most._replace(systems=2), least_steps)
    of_all = 3600 * asked["hours"]

    seconds = functools.partial(question.seconds, places=len(places))

    def cheapest(costs: Mapping[str, Cost]) -> list[str]:
        """The systems, those first whose runs take the shortest time."""
        return sorted(costs, key=lambda label: sum(seconds(fewest, [costs[label]])))

    def needed(costs: Mapping[str, Cost]) -> float:
        """Seconds that the least takes that can be compared."""
        return sum(seconds(fewest, [costs[label] for label in cheapest(costs)]))

    def patience(costs: Mapping[str, Cost]) -> float:
        """Seconds for measuring more systems, when some are known."""
        left = seconds_left()
        if len(costs) < 2:
            return math.inf
        return min(left - (1 - MEASURING) * of_all, left - needed(costs) / USED)

    costs = _measured(root, question, runs, places, patience, say)
    left = seconds_left()
    if len(costs) < 2:
        raise InputError(TOO_FEW)
    most = question.most._replace(systems=len(costs), seeds=asked["seeds"])

    def fitting(order: Sequence[str]) -> Extent | None:
        """The most that fits into the time, of systems in an order."""
        of_order = [costs[label] for label in order]
        extents = smaller(most, least_steps)
        return next((n for n in extents if sum(seconds(n, of_order)) <= USED * left), None)

    order = [*costs]
    extent = fitting(order)
    if extent is None:  # with the first two of the list, but perhaps with others
        order = cheapest(costs)
        extent = fitting(order)
    if extent is None:
        enough = math.ceil((needed(costs) / USED + of_all - left) / 36) / 100
        raise InputError(
            f"{asked['hours']:g} h are too short: by what was measured, two systems with one "
            f"setting, one seed and {fewest.steps:,} steps take about {told(needed(costs))}; "
            f"hours={enough:g} would do"
        )
    systems = dict(zip(runs, question.systems, strict=True))
    question = question._replace(systems=[systems[label] for label in order])
    of_order = [costs[label] for label in order]
    first, second = seconds(extent, of_order)
    settings = math.prod(map(len, question.settings(extent.grid).values()))
    say(
        f"time: {told(of_all)}, of which {told(of_all - left)} are over; {USED:.0%} of the rest, "
        f"{told(USED * left)}, may be planned; {counted(len(places), 'run')} at a time"
    )
    say(
        f"stage 1: {counted(extent.systems, 'system')} x {counted(settings, 'setting')} of "
        f"{extent.steps:,} steps: about {told(first)}"
    )
    say(f"stage 2: the test of the best, {counted(extent.seeds, 'seed')}: about {told(second)}")
    if left_out := list(_left_out(question, most, extent)):
        say(f"left out, for want of time: {'; '.join(left_out)}")
    of_seeds = [seconds(extent._replace(seeds=n + 1), of_order)[1] for n in range(extent.seeds)]
    candidates = question.candidates(extent)
    return Agenda(dict(asked), candidates, extent.seeds, words, [first, *of_seeds])


def _about(question: Question) -> Iterator[str]:
    """The sizes and the settings, in words."""
    usual = question.found.options | question.sizes.options
    chosen = {name: value for name, value in usual.items() if name not in question.given}
    yield f"sizes, for {suited(question.sizes)}: {config.told(chosen)}"
    factors, dropouts = (question.settings(GRIDS[0]).get(n, ("as given",)) for n in (RATE, DROPOUT))
    yield (
        f"settings, the same for each system: its learning rate x {_listed(factors)}; "
        f"dropout {_listed(dropouts)}"
    )


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def counted(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _left_out(question: Question, most: Extent, extent: Extent) -> Iterator[str]:
    """What does not fit into the time, by name."""
    fitting = question.settings(extent.grid)
    for name, values in question.settings(most.grid).items():
        if missing := values[len(fitting[name]) :]:
            yield f"{name}{' x' if name == RATE else ''} {_listed(missing)}"
    if extent.seeds < most.seeds:
        yield f"{most.seeds - extent.seeds} of {most.seeds} seeds"
    yield from (name_of(system) for system in question.systems[extent.systems :])
    if extent.steps < most.steps:
        yield f"{most.steps - extent.steps:,} of {most.steps:,} steps"


def name_of(system: Mapping[str, Any]) -> str:
    """What a system is called: its label, or its options."""
    return str(system.get("label") or config.told(system))


def _possible(root: Path, question: Question, say: Callable[[str], None]) -> tuple[Question, Runs]:
    """The systems that can be trained, and a run of each with its most promising setting.

    Says why the others cannot be, and warns of given options that no run uses.

    Raises:
      InputError: data or code cannot be used, or fewer than two systems can be trained.
    """
    for system in question.systems:
        for name in system:
            if name in (SEED, STEPS, EVERY) or name.startswith("data."):
                raise InputError(
                    f"{name_of(system)} has {name}, which a comparison needs to be the same for "
                    "all: leave it out of the systems"
                )
    if len(question.systems) < 2:
        raise InputError(TOO_FEW)
    planned = question.candidates(question.most._replace(grid=GRIDS[-1]))
    runs = {
        label: options for of in planned.values() for label, options in with_seeds(of, 1).items()
    }
    wanted, reasons = plans.possible(root, runs)
    systems = dict(zip(runs, question.systems, strict=True))
    for label, why in reasons.items():
        say(f"  {name_of(systems[label])} is left out: {why}")
    if len(wanted) < 2:
        raise InputError(TOO_FEW)
    check_all(root, runs, wanted)
    warn_of_unused(wanted.values(), question.given)
    kept = question._replace(systems=[systems[label] for label in wanted])
    return kept, {label: runs[label] for label in wanted}


def _measured(
    root: Path,
    question: Question,
    runs: Runs,
    places: Sequence[Slot],
    patience: Callable[[Mapping[str, Cost]], float],
    say: Callable[[str], None],
) -> dict[str, Cost]:
    """What runs of the systems take: as an earlier call has measured it, or as it is now.

    Args:
      root: the folder of the comparison, which keeps it.
      question: what is compared.
      runs: one of each system.
      places: where runs are made.
      patience: the seconds to wait for more, by what is known.
      say: is told what was found.
    """
    file = run_files.measured(root)
    about = {"pairs": question.found.pairs, "places": [place._asdict() for place in places]}
    of = json.loads(json.dumps({label: {**about, "options": run} for label, run in runs.items()}))
    costs: dict[str, Cost] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):  # none that can be used
        stored = json.loads(file.read_text("utf-8"))
        costs = {n: Cost(**stored[n]["cost"]) for n in of if stored.get(n, {}).get("of") == of[n]}
    names = {label: name_of(one) for label, one in zip(runs, question.systems, strict=True)}
    new = {label: run for label, run in runs.items() if label not in costs}

    def known() -> dict[str, Cost]:
        return {label: costs[label] for label in runs if label in costs}

    for label, cost in known().items():
        say(f"  {names[label]}, as measured before: {_about_cost(cost)}")
    if new and patience(known()) > 0:
        say(f"measuring {counted(len(new), 'system')}, {len(places)} at a time")
        for label, cost in measured(root, dict(new), places, lambda: patience(known())):
            del new[label]
            if isinstance(cost, str):
                say(f"  {names[label]} is left out: {cost}")
                continue
            say(f"  {names[label]}: {_about_cost(cost)}")
            costs[label] = cost
            root.mkdir(parents=True, exist_ok=True)
            kept = {n: {"of": of[n], "cost": one._asdict()} for n, one in costs.items()}
            write_whole(file, json.dumps(kept, indent=1) + "\n")
    if new:
        say(f"not measured, for want of time: {'; '.join(names[label] for label in new)}")
    return known()


def _about_cost(cost: Cost) -> str:
    return (
        f"a start takes {cost.start:.0f} s, compilation {cost.compilation:.0f} s, a step "
        f"{1000 * cost.step:.1f} ms, a validation {cost.validation:.1f} s, the test "
        f"{cost.evaluation:.1f} s"
    )
