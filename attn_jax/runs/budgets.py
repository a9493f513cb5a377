"""How much of a comparison fits into a time: settings, steps, seeds and systems."""

import bisect
import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Cost(NamedTuple):
    """What the runs of a system cost, in seconds.

    Attributes:
      start: until the first step, without compilation.
      step: a step.
      validations: all validations of a run.
      test: the evaluation of a run on the test split.
      compilation: of programs, in the first run of the system; later ones find them in the cache.
    """

    start: float
    step: float
    validations: float
    test: float
    compilation: float = 0.0

    def run(self, steps: int) -> float:
        """A run, without its test."""
        return self.start + steps * self.step + self.validations


class Extent(NamedTuple):
    """How much is compared.

    Attributes:
      systems: the first ones of the list.
      settings: of each system, with one seed each, of which the best on validation is chosen.
      steps: of each run.
      seeds: of the chosen setting, the first of which the settings have had.
    """

    systems: int
    settings: int
    steps: int
    seeds: int


def makespan(durations: Iterable[float], places: int) -> float:
    """The time until all runs have ended, each begun in order as soon as there is a place."""
    ends = [0.0] * places
    for duration in durations:
        heapq.heapreplace(ends, ends[0] + duration)  # at the place that is free first
    return max(ends)


def search_seconds(extent: Extent, costs: Sequence[Cost], places: int) -> float:
    """The time for all settings of all systems."""

    def durations() -> Iterator[float]:
        for cost in costs[: extent.systems]:
            yield cost.compilation + cost.run(extent.steps)
            yield from [cost.run(extent.steps)] * (extent.settings - 1)

    return makespan(durations(), places)


def seeds_seconds(extent: Extent, costs: Sequence[Cost], places: int) -> float:
    """The time for the seeds of the chosen settings, and all tests."""

    def durations() -> Iterator[float]:
        for cost in costs[: extent.systems]:
            yield cost.start + cost.test
            yield from [cost.run(extent.steps) + cost.test] * (extent.seeds - 1)

    return makespan(durations(), places)


def seconds(extent: Extent, costs: Sequence[Cost], places: int) -> float:
    """The time for all of a comparison."""
    return search_seconds(extent, costs, places) + seeds_seconds(extent, costs, places)


def fitted(
    most: Extent,
    settings: Sequence[int],
    least_steps: int,
    costs: Sequence[Cost],
    places: int,
    limit: float,
) -> Extent | None:
    """The largest extent that fits into a time; None if not even the least does.

    What does not fit is given up in this order: settings, then steps down to the fewest, then
    seeds, then systems from the end of the list down to two. Of what is left then, the steps are as
    many as fit.

    Args:
      most: all that is wanted.
      settings: the numbers of settings that may be tried, the largest first.
      least_steps: the fewest steps of a run.
      costs: of each system.
      places: runs at a time.
      limit: the time in seconds.
    """
    for number in settings:
        extent = most._replace(settings=number)
        if seconds(extent, costs, places) <= limit:
            return extent
    one = most._replace(settings=settings[-1])
    smaller = [one._replace(seeds=seeds) for seeds in range(most.seeds, 0, -1)]
    smaller += [one._replace(seeds=1, systems=n) for n in range(most.systems - 1, 1, -1)]
    steps = range(least_steps, most.steps + 1)
    for extent in smaller:
        # The time grows with the steps, so the most that fit are found by bisection.
        fitting = bisect.bisect_right(
            steps,
            limit,
            key=lambda n, extent=extent: seconds(extent._replace(steps=n), costs, places),
        )
        if fitting:
            return extent._replace(steps=steps[fitting - 1])
    return None


def seeds_left(
    extent: Extent, costs: Sequence[Cost], places: int, slower: float, left: float
) -> int:
    """The seeds for which the time is left, at least one.

    Args:
      extent: what was planned.
      costs: of each system, as measured.
      places: runs at a time.
      slower: how many times as long as measured the settings took.
      left: seconds.
    """
    for seeds in range(extent.seeds, 1, -1):
        if slower * seeds_seconds(extent._replace(seeds=seeds), costs, places) <= left:
            return seeds
    return 1
