"""Faults on purpose: what is damaged, how a use of it is judged, and runs that are stopped."""

import json
import random
import warnings

import numpy as np
import pytest

from attn_jax.errors import InputError
from experiments.benchmarks import damaged_files
from experiments.benchmarks.damaged_files import damage, use
from experiments.benchmarks.same_runs import GRU
from experiments.benchmarks.stopped_runs import KINDS, Kind, moment, signalled
from tests.stages import full


@pytest.mark.parametrize("seed", range(5))
def test_one_bit_is_flipped_or_the_end_is_cut(seed):
    content, chance = bytes(range(200)), random.Random(seed)
    flipped = damage(content, cut=False, chance=chance)
    bits = [np.unpackbits(np.frombuffer(one, np.uint8)) for one in (content, flipped)]
    assert (bits[0] != bits[1]).sum() == 1
    short = damage(content, cut=True, chance=chance)
    assert len(short) < len(content)
    assert content.startswith(short)


def test_a_use_is_judged_by_what_the_user_sees(tmp_path, monkeypatch):
    def refused(*_):
        raise InputError("it is damaged")

    def crashes(*_):
        raise KeyError("x")

    def warns(*_):
        warnings.warn("look", stacklevel=1)
        return [1, 2, 3, 4, 5], {"as ever"}

    def tells(*_):
        return [1, 2, 3, 4, 5], {"as ever", "the journal is short"}

    for does, outcome in [
        (lambda *_: ([1, 2, 3, 4, 5], {"as ever"}), damaged_files.UNHARMED),
        (lambda *_: ([1, 2, 3, 4, 6], {"as ever"}), damaged_files.SILENT),
        (warns, damaged_files.WARNED),
        (tells, damaged_files.WARNED),
        (refused, damaged_files.REFUSED),
        (crashes, damaged_files.TRACEBACK),
    ]:
        monkeypatch.setattr(damaged_files, "results", does)
        assert use(tmp_path, {}, ([1, 2, 3, 4, 5], {"as ever"})).outcome == outcome
    monkeypatch.setattr(damaged_files, "results", warns)
    assert use(tmp_path, {}, ([1, 2, 3, 4, 6], {"as ever"})).outcome == damaged_files.LOUD


def test_the_folder_tells_when_a_run_was_killed(tmp_path):
    assert moment(tmp_path) == "before the first checkpoint"
    (tmp_path / "checkpoints" / "10").mkdir(parents=True)
    assert moment(tmp_path) == "elsewhere"
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"step": 20, "valid_perplexity": 2.0}) + "\n"
    )
    assert moment(tmp_path) == "between journal and checkpoint"
    (tmp_path / "checkpoints" / "20.orbax-checkpoint-tmp").mkdir()
    assert moment(tmp_path) == "in a save"


@full
@pytest.mark.parametrize(
    "kind", [Kind(GRU), pytest.param(KINDS["GRU, two processes"], marks=pytest.mark.slow)]
)
def test_runs_that_are_stopped_end_as_if_left_alone(tmp_path, kind, monkeypatch):
    monkeypatch.setitem(damaged_files.OPTIONS, "train.steps", 100)
    found = signalled(tmp_path / "runs", kind, kills=2, requests=1, seed=0)
    assert found["wrong"] == []
    assert found["counts"]["tracebacks"] == 0
    assert sum(n for what, n in found["counts"].items() if what.startswith("SIG")) == 3
