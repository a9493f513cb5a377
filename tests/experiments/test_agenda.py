"""What of a comparison fits into a time."""

import numpy as np
import pytest

from attn_jax.runs.agenda import LEAST_STEPS, Extent, Question, smaller
from attn_jax.runs.defaults import DROPOUT, EVERY, RATE, STEPS, Survey, sizes_for
from attn_jax.runs.measuring import Cost, makespan, told

FAST, SLOW = Cost(10, 4, 0.1, 2, 5), Cost(30, 6, 0.4, 4, 10)
COSTS = [FAST, FAST, SLOW]
SYSTEMS = [{"label": name, "model.score": name} for name in ("additive", "dot")]
SYSTEMS += [{"label": "T", "model.decoder": "transformer", "model.encoder": "transformer"}]
FOUND = Survey({}, {"train": 3600, "validation": 9, "test": 9}, np.ones((1, 2)), ("", ""), ("", ""))
QUESTION = Question({STEPS: 1000, EVERY: 100}, SYSTEMS, FOUND, sizes_for(3600))
MOST = QUESTION.most._replace(seeds=3)


def test_runs_begin_in_order_as_soon_as_there_is_a_place():
    assert makespan([5, 3, 1, 4], 2) == 8  # 5 beside 3, 1, then 4 from 4 on
    assert makespan([5, 3, 1, 4], 1) == 13
    assert makespan([], 3) == 0
    assert [told(seconds) for seconds in (100, 130, 9000)] == ["100 s", "2.2 min", "2.5 h"]


def test_the_time_is_that_of_all_settings_then_of_the_seeds_and_tests():
    # A run takes 130 s or 470 s without compilation and test. Each setting compiles its own step.
    assert QUESTION.seconds(MOST, COSTS, 1) == (
        6 * (134 + 134 + 476),
        # The first seed is only tested, by a process that starts anew.
        pytest.approx(2 * (15 + 2 * 135) + 40 + 2 * 480),
    )
    one = MOST._replace(systems=1, grid=(1, 1), seeds=1)
    assert QUESTION.seconds(one, COSTS, 1) == (134, 15)


def test_what_is_left_out_is_never_the_training_of_a_system_unless_nothing_else_helps():
    extents = list(smaller(MOST, LEAST_STEPS))
    assert extents[0] == MOST
    kinds = [
        [name for name, now, before in zip(Extent._fields, one, MOST, strict=True) if now != before]
        for one in extents
    ]
    firsts = [kinds.index(next(kind for kind in kinds if name in kind)) for name in Extent._fields]
    grid, seeds, systems, steps = (
        firsts[Extent._fields.index(n)] for n in ("grid", "seeds", "systems", "steps")
    )
    assert grid < seeds < systems < steps
    assert extents[-1] == Extent(2, (1, 1), 1, LEAST_STEPS * 10)
    times = [sum(QUESTION.seconds(one, COSTS, 2)) for one in extents]
    assert times == sorted(times, reverse=True)
    *_, last = smaller(MOST, 100)  # steps that are given stay
    assert last.steps == MOST.steps


def test_each_system_has_as_many_settings_around_its_own_learning_rate():
    question = QUESTION._replace(given={})
    of_systems = question.candidates(question.most)
    rates = {label: {run[RATE] for run in runs.values()} for label, runs in of_systems.items()}
    assert rates == {
        "label=additive": {0.0015, 0.00075, 0.003},
        "label=dot": {0.0015, 0.00075, 0.003},
        "label=T": {0.0007, 0.00035, 0.0014},
    }
    first = next(iter(of_systems["label=T"]))
    assert first == f"label=T,{RATE}=0.0007,{DROPOUT}=0.3"
    assert {len(runs) for runs in of_systems.values()} == {6}


def test_the_schedule_ends_where_the_steps_end():
    question = QUESTION._replace(given={})
    for steps in (4000, 2000):
        for runs in question.candidates(question.most._replace(steps=steps)).values():
            for run in runs.values():
                assert run[STEPS] == steps
                assert run["train.schedule"] == f"linear(until={steps})"
                assert run.get("train.patience", 0) == 0  # a rate that still falls


def test_a_system_has_its_own_options_and_the_call_the_last_word():
    systems = [*SYSTEMS[:2], SYSTEMS[2] | {"model.hidden_size": 64, DROPOUT: 0.2}]
    question = Question({"train.warmup_steps": 7}, systems, FOUND, sizes_for(3600))
    runs = [next(iter(of.values())) for of in question.candidates(question.most).values()]
    assert [run["model.hidden_size"] for run in runs] == [256, 256, 64]
    assert {run["train.warmup_steps"] for run in runs} == {7}
    assert list(question.settings((3, 2))) == [RATE]  # what one has of its own is not tried
    assert [run.get(DROPOUT) for run in runs] == [None, None, 0.2]
