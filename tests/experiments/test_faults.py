"""Faults on purpose: what is damaged, how a reader is judged, and runs that are stopped."""

import random
import warnings

import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.records import journal
from attn_jax.records.progress import Progress
from attn_jax.training.checkpoints import WritableCheckpoints
from experiments.benchmarks import faults
from experiments.benchmarks.faults import GRU, KINDS, Kind, cut, flipped, moment, outcome, signalled
from tests.stages import full


@pytest.mark.parametrize("seed", range(5))
def test_one_bit_is_flipped_or_the_end_is_cut(seed, tmp_path):
    chance, content = random.Random(seed), bytes(range(200))
    (tmp_path / "empty").touch()
    for damage in (flipped, cut):
        (tmp_path / "file").write_bytes(content)
        assert damage(tmp_path, chance) == tmp_path / "file"
        found = (tmp_path / "file").read_bytes()
        if damage is cut:
            assert len(found) < len(content)
            assert content.startswith(found)
        else:
            bits = [np.unpackbits(np.frombuffer(one, np.uint8)) for one in (content, found)]
            assert (bits[0] != bits[1]).sum() == 1


def test_a_reader_is_judged_by_what_the_user_sees(tmp_path):
    def refused(_):
        raise InputError("it is damaged")

    def crashes(_):
        raise KeyError("x")

    def warns(_):
        warnings.warn("look", stacklevel=1)
        return 2, ["as ever"]

    def prints(_):
        print("as ever\nwarning: the journal is short")
        return 2, []

    for reader, found in [
        (lambda _: (1, ["as ever"]), "same"),
        (lambda _: (2, ["as ever"]), "silent"),
        (lambda _: (2, ["left out: the journal is short"]), "told"),
        (warns, "told"),
        (prints, "told"),
        (refused, "told"),
        (crashes, "traceback"),
    ]:
        assert outcome(reader, tmp_path, (1, {"as ever"}))[0] == found


def test_the_folder_tells_when_a_run_was_killed(tmp_path):
    assert moment(tmp_path) == "before the first checkpoint"
    checkpoints, leaves = WritableCheckpoints(tmp_path, 1), {"x": np.zeros(2)}
    checkpoints.save(10, leaves, leaves, Progress(), None)
    assert moment(tmp_path) == "elsewhere"
    journal.append(tmp_path, {"step": 20, "valid_perplexity": 2.0})
    assert moment(tmp_path) == "between journal and checkpoint"
    (tmp_path / "checkpoints" / "20.orbax-checkpoint-tmp").mkdir()
    assert moment(tmp_path) == "in a save"


@full
def test_a_damage_that_no_one_notices_is_counted_as_silent(tmp_path, monkeypatch):
    def damage(run, _):
        file = run / "predictions.test.jsonl"
        file.unlink()
        return file

    monkeypatch.setattr(faults, "DAMAGES", {"removed": (damage, 1)})
    monkeypatch.setitem(
        faults.READERS, "report", lambda run: (sorted(one.name for one in run.iterdir()), [])
    )
    found = dict(faults.damaged(tmp_path))
    assert list(found) == ["removed, report", "removed, load", "removed, train"]
    assert found["removed, report"] == {
        "same": 0,
        "told": 0,
        "silent": 1,
        "traceback": 0,
        "details": ["predictions.test.jsonl: silent "],
    }
    assert found["removed, load"]["same"] == 1


@full
@pytest.mark.parametrize(
    "kind", [Kind(GRU), pytest.param(KINDS["GRU, two processes"], marks=pytest.mark.slow)]
)
def test_runs_that_are_stopped_end_as_if_left_alone(tmp_path, kind, monkeypatch):
    monkeypatch.setitem(faults.OPTIONS, "train.steps", 100)
    found = signalled(tmp_path / "runs", kind, kills=2, requests=1, seed=0)
    assert found["silent"] == found["traceback"] == 0
    assert all(line.startswith("SIG") for line in found["details"])
    assert sum(int(line.split()[-1]) for line in found["details"]) == 3
