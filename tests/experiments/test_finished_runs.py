"""Runs that have finished: nothing is written into them, so that they may lie where nobody can."""

import os
import shutil

import pytest

from attn_jax.data.datasets import open_corpus
from attn_jax.errors import InputError
from attn_jax.records import run_files
from attn_jax.runs.evaluation import evaluate_split
from attn_jax.runs.folder import settle
from attn_jax.runs.training import train_alone
from attn_jax.translation.loading import best_checkpoint, experiment_of
from tests.experiments.programs import SMALL, works
from tests.stages import full

pytestmark = full


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, and what was printed."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, works("train", f"--workdir={folder}", *SMALL).stdout


@pytest.fixture
def read_only(monkeypatch):
    """As without the permission to write; the privileged user always has it."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))


def times(folder):
    """When each file and folder was changed; a file for a while changes the time of its folder."""
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def test_training_a_finished_run_again_prints_its_evaluation_and_writes_nothing(run):
    folder, first = run
    before = times(folder)
    again = works("train", f"--workdir={folder}")
    assert times(folder) == before
    assert "nothing is left to train: the run has finished at step 20\n" in again.stdout
    assert again.stdout.partition("┏")[2] == first.partition("┏")[2] != ""
    assert again.stderr == ""


def test_a_finished_run_may_be_moved_and_gets_another_label(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "moved")
    works("train", f"--workdir={folder}", "--label=mine")
    assert experiment_of(folder).label == "mine"
    assert run_files.evaluation(folder, "test").is_file()


def again(folder, given):
    experiment = settle(folder, given)
    train_alone(folder, experiment, open_corpus(experiment.data), {})


def test_only_what_must_be_written_needs_permission(run, read_only, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "run")
    before = times(folder)
    again(folder, {})
    for more in ({"train.steps": 30}, {"label": "mine"}):
        with pytest.raises(InputError, match=r"cannot write into .*run, which training nee"):
            again(folder, more)
    corpus = open_corpus(experiment_of(folder).data)
    advice = f"such as {best_checkpoint(folder)}"
    with pytest.raises(
        InputError, match=f"to write nothing, evaluate a checkpoint in it, {advice}"
    ):
        evaluate_split(folder, corpus, "test", {})
    assert times(folder) == before
