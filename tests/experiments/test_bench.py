"""Benchmarks: sides that take turns or die, their cases, and their figures."""

import sys
from pathlib import Path

import pytest

from attn_jax.errors import InputError
from experiments.bench import main, one_device, shown, table_of
from experiments.benchmarks import ours
from experiments.benchmarks.cases import GROUPS
from experiments.benchmarks.compare import Side, compare
from experiments.benchmarks.processes import timed
from tests.stages import full

pytestmark = full


def side(name, repeat, **settings):
    code = f"""
import time
from experiments.benchmarks.side import serve
def task(**settings):
    return lambda: {repeat}
serve(task)
"""
    return Side(name, [sys.executable, "-c", code, "task"], settings)


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="only Linux"):
        main()


def test_sides_take_turns():
    slow = side("slow", "print('no answer') or time.sleep(settings['seconds'])", seconds=0.05)
    measured = compare([slow, side("fast", "None")], rounds=3)
    assert list(measured) == ["slow", "fast"]
    assert [len(one["ms"]) for one in measured.values()] == [3, 3]
    assert min(measured["slow"]["ms"]) > 50 > min(measured["fast"]["ms"])
    assert all(one["peak MiB"] > one["grown MiB"] >= 0 for one in measured.values())


def test_the_first_repetitions_of_a_turn_are_not_timed():
    slow_at_first = "settings['calls'].append(1) or time.sleep(0.1 * (len(settings['calls']) < 4))"
    (found,) = compare([side("warm", slow_at_first, calls=[])], rounds=1).values()
    assert found["ms"][0] < 50


def test_memory_that_a_repetition_takes_is_seen():
    (found,) = compare([side("large", "bytearray(50 * 2**20).count(1)")], rounds=1).values()
    assert 45 < found["grown MiB"] < 60


def test_a_side_that_dies_is_named():
    with pytest.raises(InputError, match="broken ended: ZeroDivisionError"):
        compare([side("broken", "1 / 0")], rounds=1)


def test_a_peer_that_dies_is_left_out_and_named():
    measured = compare([side("whole", "None"), side("broken", "1 / 0")], rounds=2)
    assert len(measured["whole"]["ms"]) == 2
    assert measured["broken"] == {"ended": "broken ended: ZeroDivisionError: division by zero"}


def test_a_peer_that_dies_as_it_waits_is_left_out_too():
    dying = "__import__('threading').Timer(0.1, __import__('os')._exit, [1]).start()"
    measured = compare([side("whole", "None"), side("mortal", dying)], rounds=2)
    assert len(measured["whole"]["ms"]) == 2
    assert measured["mortal"] == {"ended": "mortal ended: nothing"}


def test_peers_that_would_compute_elsewhere_are_refused(monkeypatch):
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "")  # so that they are restored afterwards
    one_device(sys.executable)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    with pytest.raises(InputError, match="on a GPU and its peers on the CPU"):
        one_device(sys.executable)


@pytest.mark.parametrize("system", ours.OPTIONS)
def test_a_step_of_every_system(system):
    repeat = ours.training(
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


@pytest.mark.parametrize("operation", ours.MECHANISMS)
def test_an_operation_of_attention(operation):
    for derivative in (False, True):
        ours.attention(operation, batch=2, length=3, size=5, derivative=derivative)()


def test_every_case_names_this_project_first_and_functions_that_exist():
    folder = Path(ours.__file__).parent
    for group in GROUPS.values():
        for case in group():
            (first, *_) = case.sides
            assert first == "attn_jax"
            for module, function in case.sides.values():
                assert f"\ndef {function}(" in (folder / f"{module}.py").read_text()


def test_figures_of_several_rounds_are_shown_as_median_and_range():
    table = table_of({"one": {"ms": [3.0, 1.0, 2.5], "details": ["…"]}, "two": {"ended": "early"}})
    assert list(table) == ["", "ms", "ended"]
    assert table.to_numpy().tolist() == [["one", "2.5 (1 to 3)", ""], ["two", "", "early"]]
    assert [shown(figure) for figure in (1234.5, 1234, 0.5, (2.0,))] == [
        "1,234",
        "1,234",
        "0.5",
        "2",
    ]


def test_a_beginning_is_timed_and_a_failure_named(tmp_path):
    seconds, peak, said = timed(["-c", "import time; time.sleep(0.2); print('done')"], tmp_path)
    assert 0.2 < seconds < 20
    assert 1 < peak < 1000
    assert said.strip() == "done"
    with pytest.raises(InputError, match="ended with status 3"):
        timed(["-c", "raise SystemExit(3)"], tmp_path)
