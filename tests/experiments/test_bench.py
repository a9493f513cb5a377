"""Benchmarks: sides that answer, in turn, and one that dies."""

import sys

import pytest

from attn_jax.errors import InputError
from experiments.benchmarks import training
from experiments.benchmarks.cases import GROUPS
from experiments.benchmarks.compare import Side, compare


def side(name, repeat, **settings):
    code = f"""
import time
from experiments.benchmarks.side import serve
serve(lambda **settings: lambda: {repeat})
"""
    return Side(name, [sys.executable, "-c", code], settings)


def test_sides_take_turns():
    slow = side("slow", "print('no answer') or time.sleep(settings['seconds'])", seconds=0.05)
    measured = compare([slow, side("fast", "None")], rounds=3)
    assert list(measured) == ["slow", "fast"]
    assert [len(one.seconds) for one in measured.values()] == [3, 3]
    assert measured["slow"].median > 0.05 > measured["fast"].median
    assert all(one.peak > one.grown >= 0 for one in measured.values())


def test_memory_that_a_repetition_takes_is_seen():
    measured = compare([side("large", "bytearray(50 * 2**20).count(1)")], rounds=1)
    assert 45 < measured["large"].grown < 60


def test_a_side_that_dies_is_named():
    with pytest.raises(InputError, match="broken ended: ZeroDivisionError"):
        compare([side("broken", "1 / 0")], rounds=1)


@pytest.mark.parametrize("system", training.OPTIONS)
def test_a_step_of_every_system(system):
    repeat = training.prepare(
        system=system,
        batch=2,
        source_length=3,
        target_length=4,
        vocabulary=20,
        size=8,
        precision="bfloat16",
    )
    repeat()
    repeat()


def test_every_case_names_a_module_and_this_project_first():
    for group in GROUPS.values():
        for case in group():
            first, *peers = (module for module, _ in case.sides.values())
            assert not first.startswith("peer_")
            assert all(module.startswith("peer_") for module in peers)
