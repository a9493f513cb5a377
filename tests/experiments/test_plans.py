"""The plan of a sweep, which several processes may write at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from attn_jax.errors import InputError
from attn_jax.records import run_files
from attn_jax.runs import plans
from attn_jax.runs.plans import Plan

PLAN = Plan({f"seed={seed}": {"seed": seed} for seed in range(5)})


def test_a_plan_is_written_once_and_read_whole(tmp_path):
    assert plans.read(tmp_path) == Plan({})
    assert plans.add(tmp_path, PLAN) == PLAN
    file = run_files.plan(tmp_path)
    before = file.stat().st_mtime_ns
    assert plans.add(tmp_path, PLAN) == PLAN
    assert file.stat().st_mtime_ns == before
    assert plans.read(tmp_path) == PLAN
    assert plans.add(tmp_path, Plan({})) == PLAN
    more = PLAN.with_more(Plan({"seed=1": {"seed": 1, "train.steps": 9}, "seed=7": {"seed": 7}}))
    assert more.numbers == {**PLAN.numbers, "seed=7": 6}
    text = file.read_text()
    others = [text.replace('"seed": 3', '"seed": 4'), text.replace('": 1', '": 2'), text[1:], "{}"]
    for damaged in others:
        file.write_text(damaged)
        with pytest.raises(InputError, match=r"plan.json is (missing or )?damaged"):
            plans.read(tmp_path)


def test_processes_that_plan_at_the_same_time_keep_the_runs_of_each_other(tmp_path):
    def plan(seed):
        return plans.add(tmp_path, Plan({f"seed={seed}": {"seed": seed}}))

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(plan, range(40)))
    whole = plans.read(tmp_path)
    assert sorted(given["seed"] for given in whole.runs.values()) == list(range(40))
    for seed, one in enumerate(made):  # numbers that a process has told its jobs stay
        assert one.numbers[f"seed={seed}"] == whole.numbers[f"seed={seed}"]


def test_a_call_takes_a_run_or_a_part_of_the_plan():
    assert list(PLAN.chosen(only=2)) == ["seed=1"]
    parts = [list(PLAN.chosen(part=f"{which}/3")) for which in (1, 2, 3)]
    assert parts == [["seed=0", "seed=3"], ["seed=1", "seed=4"], ["seed=2"]]
    with pytest.raises(InputError, match="run 2 is not of the part 1/3"):
        PLAN.chosen(only=2, part="1/3")
    for wrong in ({"only": 6}, {"only": 0}, {"part": "0/3"}, {"part": "4/3"}, {"part": "half"}):
        with pytest.raises(InputError, match=r"there is no run|is no part of the runs"):
            PLAN.chosen(**wrong)
