"""Benchmarks: sides that take turns or die, their cases, and their figures."""

import sys
from pathlib import Path

import pytest
import yaml

from attn_jax.errors import InputError
from experiments.bench import main, one_device
from experiments.benchmarks import (
    attention,
    end_to_end,
    plain_attention,
    training,
)
from experiments.benchmarks.cases import GROUPS, OPERATIONS, WITHOUT_PEERS
from experiments.benchmarks.compare import Side, compare
from experiments.benchmarks.figure import relative_times
from experiments.benchmarks.start import timed
from tests.stages import full

pytestmark = full


def side(name, repeat, **settings):
    code = f"""
import time
from experiments.benchmarks.side import serve
serve(lambda **settings: lambda: {repeat})
"""
    return Side(name, [sys.executable, "-c", code], settings)


def test_other_systems_are_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="only Linux"):
        main()


def test_sides_take_turns():
    slow = side("slow", "print('no answer') or time.sleep(settings['seconds'])", seconds=0.05)
    measured, _ = compare([slow, side("fast", "None")], rounds=3)
    assert list(measured) == ["slow", "fast"]
    assert [len(one.seconds) for one in measured.values()] == [3, 3]
    assert measured["slow"].median > 0.05 > measured["fast"].median
    assert all(one.peak > one.grown >= 0 for one in measured.values())


def test_the_first_repetitions_of_a_turn_are_not_timed():
    slow_at_first = "settings['calls'].append(1) or time.sleep(0.1 * (len(settings['calls']) < 4))"
    measured, _ = compare([side("warm", slow_at_first, calls=[])], rounds=1)
    assert measured["warm"].median < 0.05


def test_memory_that_a_repetition_takes_is_seen():
    measured, _ = compare([side("large", "bytearray(50 * 2**20).count(1)")], rounds=1)
    assert 45 < measured["large"].grown < 60


def test_a_side_that_dies_is_named():
    with pytest.raises(InputError, match="broken ended: ZeroDivisionError"):
        compare([side("broken", "1 / 0")], rounds=1)


def test_a_peer_that_dies_is_left_out_and_named():
    measured, ended = compare([side("whole", "None"), side("broken", "1 / 0")], rounds=2)
    assert list(measured) == ["whole"]
    assert len(measured["whole"].seconds) == 2
    assert ended == {"broken": "broken ended: ZeroDivisionError: division by zero"}


def test_a_peer_that_dies_as_it_waits_is_left_out_too():
    dying = "__import__('threading').Timer(0.1, __import__('os')._exit, [1]).start()"
    measured, ended = compare([side("whole", "None"), side("mortal", dying)], rounds=2)
    assert list(measured) == ["whole"]
    assert ended == {"mortal": "mortal ended: nothing"}


def test_peers_that_would_compute_elsewhere_are_refused(monkeypatch):
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "")  # so that they are restored afterwards
    one_device(sys.executable)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    with pytest.raises(InputError, match="on a GPU and its peers on the CPU"):
        one_device(sys.executable)


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


@pytest.mark.parametrize(
    ("side", "operation"),
    [
        *((attention, operation) for operation in (*OPERATIONS, *WITHOUT_PEERS)),
        *((plain_attention, operation) for operation in OPERATIONS),
    ],
)
def test_an_operation_of_attention(side, operation):
    for derivative in (False, True):
        side.prepare(
            operation=operation,
            batch=2,
            source_length=3,
            target_length=4,
            size=5,
            derivative=derivative,
        )()


def test_every_case_names_this_project_first_and_modules_that_exist():
    folder = Path(training.__file__).parent
    for group in GROUPS.values():
        for case in group():
            modules = [module for module, _ in case.sides.values()]
            assert not modules[0].startswith("peer_")
            assert all((folder / f"{module}.py").is_file() for module in modules)


def test_a_figure_has_a_mark_for_each_side_in_units_of_the_first():
    cases = {"one": {"ours": [2.0, 1.0, 3.0], "theirs": [4.0]}, "two": {"ours": [5.0]}}
    (axes,) = relative_times(cases).axes
    marks = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in marks] == [
        (1, pytest.approx(-0.15)),
        (2, pytest.approx(0.15)),
        (1, pytest.approx(0.85)),
    ]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]


def test_seconds_until_goals_are_those_of_validations():
    found = end_to_end.summary([(12.0, 8.0), (21.0, 20.5), (30.0, 26.0), (40.0, 24.0)])
    assert found["epoch"] == pytest.approx(28 / 3)
    assert found["goals"] == {20: 21.0, 25: 30.0, 28: None}


def test_a_training_is_followed_to_its_last_goal(tmp_path, monkeypatch):
    monkeypatch.setattr(end_to_end, "PATIENCE", 0.1)
    code = "import time; [print('bleu', x, flush=True) or time.sleep(0.2) for x in (5, 21, 30, 1)]"
    command = [sys.executable, "-c", code]
    found = end_to_end.followed(command, r"bleu (\d+)", tmp_path)
    assert [bleu for _, bleu in found] == [5, 21, 30]
    assert found[0][0] < found[1][0] < found[2][0]
    assert "bleu 21" in (tmp_path / "training.log").read_text()
    with pytest.raises(InputError, match="ended before BLEU 28"):
        end_to_end.followed([sys.executable, "-c", "print('bleu 3')"], r"bleu (\d+)", tmp_path)


def test_missing_captions_are_named(tmp_path):
    with pytest.raises(InputError, match=r"--multi30k: missing file: .* does not exist"):
        end_to_end.captions(tmp_path)


def test_a_beginning_is_timed_and_a_failure_named(tmp_path):
    seconds, peak = timed([sys.executable, "-c", "import time; time.sleep(0.2)"], tmp_path)
    assert 0.2 < seconds < 20
    assert 1 < peak < 1000
    with pytest.raises(InputError, match="ended with status 3"):
        timed([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_the_other_system_has_the_sizes_of_the_preset(tmp_path):
    config = yaml.safe_load(end_to_end.joey(tmp_path, 5, 454).read_text())
    flags = dict(
        line.removeprefix("--").split("=", 1)
        for name in ("multi30k", "multi30k-rnnsearch")
        for line in Path(f"experiments/presets/{name}.flags").read_text().splitlines()
        if line.startswith("--")
    )
    sides = config["model"]["encoder"], config["model"]["decoder"]
    assert [side["hidden_size"] for side in sides] == [int(flags["model.hidden_size"])] * 2
    embeddings = [side["embeddings"]["embedding_dim"] for side in sides]
    assert embeddings == [int(flags["model.embedding_size"])] * 2
    assert config["training"]["batch_size"] == int(flags["train.batch_size"])
    assert config["training"]["label_smoothing"] == float(flags["train.label_smoothing"])
    assert config["testing"]["beam_size"] == 5
