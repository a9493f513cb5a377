"""What a comparison may do in its time: sizes for the data, a measured step, what is left out."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_jax import config
from attn_jax.config import Experiment
from attn_jax.errors import InputError
from attn_jax.runs import budgets, planning, unused
from attn_jax.runs.agenda import SEED, Agenda, name_of
from attn_jax.runs.budgets import Cost, Extent, fitted
from attn_jax.runs.checks import check
from attn_jax.runs.estimates import Estimate, estimates
from attn_jax.runs.folder import settle_planned
from attn_jax.runs.measuring import Pace
from attn_jax.runs.plans import Plan
from attn_jax.runs.sizes import (
    DROPOUTS,
    EVERY,
    LEARNING_RATES,
    LEAST_STEPS,
    RATES,
    STEPS,
    Sizes,
    paced,
    sizes_for,
    suited,
)
from attn_jax.runs.slots import Slot
from attn_jax.runs.standing import told
from attn_jax.runs.surveying import Survey, survey
from attn_jax.runs.sweeping import Sweep, check_all

# Share of the time that is planned: runs may be slower than measured, and the report takes some.
USED = 0.85
GRIDS = ((3, 2), (2, 2), (2, 1), (1, 1))  # numbers of learning rates and of dropouts

TOO_FEW = "a comparison needs two systems that can be trained"

Say = Callable[[str], None]


def proposed(
    root: Path,
    asked: Mapping[str, Any],
    places: Sequence[Slot],
    seconds_left: Callable[[], float],
    say: Say,
) -> Agenda:
    """Looks at the data, measures each system, and decides what fits into the time.

    Args:
      root: the folder of the comparison, into which nothing is written.
      asked: `options`, `systems`, `hours` and `seeds`.
      places: where runs are made.
      seconds_left: how much time is left.
      say: is told, line by line, what is found and decided.

    Raises:
      InputError: options, systems or data cannot be used, or not even the least fits.
    """
    words: list[str] = []

    def tell(line: str) -> None:
        words.append(line)
        say(line)

    given, systems = asked["options"], asked["systems"]
    _check(systems)
    if len(systems) < 2:
        raise InputError(TOO_FEW)
    found = survey(given)
    sizes = sizes_for(found.pairs["train"])
    chosen = _chosen(found, sizes, given, systems)
    options, grid = chosen | given, _grid(sizes, given, systems)
    steps = int(options[STEPS])
    least = steps if STEPS in given else max(1, int(LEAST_STEPS * steps))
    grids = {_settings(one): one for one in _smaller(grid)}
    for line in found.told():
        tell(line)
    tell(_about_sizes(sizes, chosen))
    tell(_about_settings(grid, asked["seeds"]))
    planned, wanted = _built(root, options, given, grid, systems, tell)
    systems = [system for system, label in zip(systems, planned, strict=True) if label in wanted]
    tell(f"measuring {len(systems)} systems, {len(places)} at a time")
    kept, costs, others = [], [], []
    for system, estimate in _measured(root, planned, wanted, systems, places):
        if estimate.pace is None:
            tell(_about_left_out(system, estimate.why))
            continue
        kept.append(system)
        costs.append(_cost(estimate.pace, estimate.start, found, options))
        tell(_about_pace(name_of(system), costs[-1], steps))
        shortest = Extent(len(kept), min(grids), least, 1)
        needed = budgets.seconds(shortest, costs, len(places))
        if len(kept) >= 2 and needed > USED * seconds_left():
            others = systems[systems.index(system) + 1 :]
            break  # there is no time for them, nor to measure them
    if len(kept) < 2:
        raise InputError(TOO_FEW)
    most = Extent(len(kept), _settings(grid), steps, asked["seeds"])
    extent = fitted(most, list(grids), least, costs, len(places), USED * seconds_left())
    if extent is None:
        fewest = Extent(2, min(grids), least, 1)
        needed = budgets.seconds(fewest, costs, len(places)) / USED
        raise InputError(
            f"{asked['hours']:g} h are too short: by what was measured, two systems with one "
            f"setting, one seed and {least:,} steps take about {told(needed)}"
        )
    fitting = grids[extent.settings]
    tell(_about_time(asked["hours"], extent, costs, len(places)))
    if left_out := list(_left_out(most, extent, [*kept, *others], grid, fitting)):
        tell(f"left out, for want of time: {'; '.join(left_out)}")
    of_steps = {name: value for name, value in paced(extent.steps).items() if name in chosen}
    return Agenda(
        asked=dict(asked),
        options=options | of_steps,
        systems=kept[: extent.systems],
        grid=fitting,
        seeds=extent.seeds,
        costs=costs[: extent.systems],
        places=len(places),
        words=words,
    )


def _check(systems: Sequence[Mapping[str, Any]]) -> None:
    """Raises InputError if systems decide what a comparison decides for all of them."""
    for system in systems:
        for name in system:
            if name in (SEED, STEPS, EVERY) or name.startswith("data."):
                raise InputError(
                    f"{name_of(system)} has {name}, which a comparison needs to be the same for "
                    "all: leave it out of the systems"
                )


def _chosen(
    found: Survey, sizes: Sizes, given: Mapping[str, Any], systems: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The options that neither the call nor a system gives."""
    usual = found.options | sizes.options | paced(int(given.get(STEPS, sizes.steps)))
    return {name: value for name, value in usual.items() if name not in _taken(given, systems)}


def _taken(given: Mapping[str, Any], systems: Sequence[Mapping[str, Any]]) -> set[str]:
    return set(given).union(*systems)


def _grid(
    sizes: Sizes, given: Mapping[str, Any], systems: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """The settings to try, of what neither the call nor a system gives."""
    usual = {RATES: list(LEARNING_RATES), DROPOUTS: list(sizes.dropouts)}
    return {name: usual[name] for name in usual if name not in _taken(given, systems)}


def _smaller(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, list[Any]]]:
    """The grid, and smaller ones."""
    before = None
    for counts in GRIDS:
        most = dict(zip((RATES, DROPOUTS), counts, strict=True))
        smaller = {name: values[: most[name]] for name, values in grid.items()}
        if smaller != before:
            yield smaller
        before = smaller


def _settings(grid: Mapping[str, list[Any]]) -> int:
    return math.prod(map(len, grid.values()))


def _built(
    root: Path,
    options: Mapping[str, Any],
    given: Mapping[str, Any],
    grid: Mapping[str, list[Any]],
    systems: Sequence[Mapping[str, Any]],
    tell: Say,
) -> tuple[dict[str, dict[str, Any]], dict[str, Experiment]]:
    """The options of a run of each system, and those of the runs that can be made.

    Tells why the others cannot be made, and warns of given options that no run uses.

    Raises:
      InputError: data or code cannot be used, or fewer than two runs can be made.
    """
    first = {name: values[:1] for name, values in grid.items()} | {SEED: [0]}
    planned, wanted = planning.plan(systems, first, options), {}
    for system, (label, of_run) in zip(systems, planned.items(), strict=True):
        try:
            experiment = settle_planned(root / label, of_run)
            check(experiment)
            wanted[label] = experiment
        except InputError as error:
            tell(_about_left_out(system, error))
    if len(wanted) < 2:
        raise InputError(TOO_FEW)
    check_all(root, planned, wanted)
    unused.warn(wanted.values(), given)
    return planned, wanted


def _measured(
    root: Path,
    planned: Mapping[str, Mapping[str, Any]],
    wanted: Mapping[str, Experiment],
    systems: Sequence[Mapping[str, Any]],
    places: Sequence[Slot],
) -> Iterator[tuple[Mapping[str, Any], Estimate]]:
    """Each system with what is measured of it, or why nothing could be; in order."""
    labels = list(wanted)
    for first in range(0, len(labels), len(places)):
        some = labels[first : first + len(places)]
        plan = Plan({label: planned[label] for label in some})
        found = estimates(Sweep(root, plan, {label: wanted[label] for label in some}), places)
        yield from zip(systems[first:], map(found.__getitem__, some), strict=False)


def _about_left_out(system: Mapping[str, Any], why: object) -> str:
    return f"  {name_of(system)} is left out: {why}"


def _cost(pace: Pace, start: float, found: Survey, options: Mapping[str, Any]) -> Cost:
    validations = -(-int(options[STEPS]) // int(options[EVERY]))
    test = pace.validation * found.pairs["test"] / found.pairs["validation"]
    return Cost(start, pace.step, validations * pace.validation, test, pace.compilation)


def _about_sizes(sizes: Sizes, chosen: Mapping[str, Any]) -> str:
    if not chosen:
        return "sizes: as they were given"
    return f"sizes, for {suited(sizes)}: {config.told(chosen)}"


def _about_settings(grid: Mapping[str, list[Any]], seeds: int) -> str:
    tried = " x ".join(f"{name}={listed(values)}" for name, values in grid.items())
    return (
        f"settings, the same for each system: {tried or 'one'}; of the best on validation, "
        f"{_counted(seeds, 'seed')}"
    )


def listed(values: Sequence[Any]) -> str:
    """Values as the grid of a sweep takes them."""
    return ",".join(map(str, values))


def _about_pace(name: str, cost: Cost, steps: int) -> str:
    return (
        f"  {name}: {1000 * cost.step:.1f} ms a step, a run of {steps:,} steps "
        f"{told(cost.run(steps))}, of which validations {told(cost.validations)}"
    )


def _about_time(hours: float, extent: Extent, costs: Sequence[Cost], places: int) -> str:
    return (
        f"{hours:g} h, {_counted(places, 'run')} at a time: {_counted(extent.systems, 'system')} x "
        f"{_counted(extent.settings, 'setting')} of {extent.steps:,} steps, then "
        f"{_counted(extent.seeds, 'seed')} of the best of each: about "
        f"{told(budgets.seconds(extent, costs, places))}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _left_out(
    most: Extent,
    extent: Extent,
    kept: Sequence[Mapping[str, Any]],
    grid: Mapping[str, list[Any]],
    fitting: Mapping[str, list[Any]],
) -> Iterator[str]:
    """What does not fit into the time, by name."""
    for name, values in grid.items():
        if missing := values[len(fitting[name]) :]:
            yield f"{name}={listed(missing)}"
    if extent.steps < most.steps:
        yield f"{most.steps - extent.steps:,} of {most.steps:,} steps"
    if extent.seeds < most.seeds:
        yield f"{most.seeds - extent.seeds} of {most.seeds} seeds"
    for system in kept[extent.systems :]:
        yield name_of(system)
