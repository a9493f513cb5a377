"""What of a comparison fits into a time."""

import pytest

from attn_jax.runs.budgets import (
    Cost,
    Extent,
    fitted,
    makespan,
    search_seconds,
    seconds,
    seeds_left,
    seeds_seconds,
)

FAST, SLOW = Cost(10, 0.1, 20, 5), Cost(30, 0.4, 40, 10)
MOST, SETTINGS, LEAST = Extent(3, 4, 1000, 3), [4, 2, 1], 250
COSTS = [FAST, FAST, SLOW]


def of(limit, places=1):
    return fitted(MOST, SETTINGS, LEAST, COSTS, places, limit)


def test_runs_begin_in_order_as_soon_as_there_is_a_place():
    assert makespan([5, 3, 1, 4], 2) == 8  # 5 beside 3, 1, then 4 from 4 on
    assert makespan([5, 3, 1, 4], 1) == 13
    assert makespan([], 3) == 0


def test_the_time_is_that_of_all_settings_then_of_the_seeds_and_tests():
    # A run takes 130 s or 470 s.
    assert search_seconds(MOST, COSTS, 1) == 4 * (130 + 130 + 470)
    # The first seed is only tested, by a process that starts anew.
    assert seeds_seconds(MOST, COSTS, 1) == 2 * (15 + 2 * 135) + 40 + 2 * 480
    assert seconds(MOST, COSTS, 1) == 2920 + 1570


def test_the_first_run_of_a_system_compiles():
    compiled = FAST._replace(compilation=50)
    one = MOST._replace(systems=1)
    assert search_seconds(one, [compiled], 1) == search_seconds(one, [FAST], 1) + 50
    assert seeds_seconds(one, [compiled], 1) == seeds_seconds(one, [FAST], 1)


def test_first_settings_are_left_out():
    assert of(4490) == MOST
    assert of(4489) == MOST._replace(settings=2)
    assert of(3030) == MOST._replace(settings=2)
    assert of(3029) == MOST._replace(settings=1)
    assert of(2300) == MOST._replace(settings=1)


def test_then_steps_then_seeds_then_systems():
    one = MOST._replace(settings=1)
    extent = of(2299)
    assert (extent.systems, extent.settings, extent.seeds) == (3, 1, 3)
    assert extent.steps == 999
    assert seconds(extent, COSTS, 1) <= 2299
    least = seconds(one._replace(steps=LEAST), COSTS, 1)
    assert of(least) == one._replace(steps=LEAST)
    fewer = of(least - 1)
    assert (fewer.systems, fewer.seeds) == (3, 2)
    assert fewer.steps > LEAST  # as many as fit, now that there are fewer seeds
    alone = seconds(one._replace(steps=LEAST, seeds=1), COSTS, 1)
    assert of(alone).seeds == 1
    two = of(alone - 1)
    assert (two.systems, two.settings, two.seeds) == (2, 1, 1)
    last = seconds(Extent(2, 1, LEAST, 1), COSTS, 1)
    assert of(last) == Extent(2, 1, LEAST, 1)
    assert of(last - 0.01) is None


@pytest.mark.parametrize("places", [1, 2, 5])
@pytest.mark.parametrize("limit", [500, 900, 2000, 3000, 10_000])
def test_what_fits_takes_no_longer_and_more_places_never_less(limit, places):
    extent = of(limit, places)
    if extent is not None:
        assert seconds(extent, COSTS, places) <= limit
        assert LEAST <= extent.steps <= MOST.steps
    if of(limit) is not None:
        assert extent is not None


def test_steps_that_are_fixed_are_not_lowered():
    extent = fitted(MOST, SETTINGS, MOST.steps, COSTS, 1, 2299)
    assert extent == Extent(3, 1, 1000, 2)


def test_fewer_seeds_are_made_where_runs_were_slower_than_measured():
    needed = seeds_seconds(MOST, COSTS, 1)
    assert seeds_left(MOST, COSTS, 1, 1.0, needed) == 3
    assert seeds_left(MOST, COSTS, 1, 1.5, needed) == 2
    assert seeds_left(MOST, COSTS, 1, 50.0, needed) == 1
    assert seeds_left(MOST, COSTS, 1, 0.5, needed / 2) == 3
