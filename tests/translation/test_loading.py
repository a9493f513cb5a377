"""Loading what earlier versions have trained, and what the package brings along."""

from pathlib import Path

import attn_jax
from attn_jax.data.datasets import open_corpus
from attn_jax.models.attention import Attention
from attn_jax.runs.folder import settle
from attn_jax.runs.training import train_alone
from attn_jax.translation.loading import TRAINED, located

OPTIONS = {
    "data.name": "copy",
    "data.examples": 100,
    "data.held_out": 10,
    "data.shortest": 2,
    "data.longest": 6,
    "model.embedding_size": 5,
    "model.annotation_size": 12,
    "model.hidden_size": 12,
    "model.readout_size": 7,
    "train.steps": 2,
    "train.valid_every": 2,
    "train.buckets": 1,
}


def test_a_run_with_one_score_twice_can_no_longer_begin_but_is_loaded(tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    experiment = settle(
        tmp_path / "new", OPTIONS | {"model.score": "dot", "model.normalizer": "mocha"}
    )
    with monkeypatch.context() as earlier:
        earlier.setattr(Attention, "check_scores", lambda self: None)
        train_alone(run, experiment, open_corpus(experiment.data), {})
    (translation,) = attn_jax.load(run).translate(["a b c"])
    assert translation.alignment.shape[1] == 3


def test_the_package_brings_a_trained_model_along(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dates = attn_jax.load("dates")
    texts = {
        "mardi 3 mars 1998": "1998-03-03",
        "2. august 2031": "2031-08-02",
        "sunday, november 1, 1925": "1925-11-01",
    }
    hypotheses = dates.translate(list(texts))
    assert [hypothesis.text for hypothesis in hypotheses] == list(texts.values())
    # The last digit of the year is read where it stands, or beside it.
    assert hypotheses[0].alignment[3].argmax() >= len("mardi 3 mars 1998") - 2


def test_the_model_of_the_package_is_small():
    files = [file for file in (TRAINED / "dates").rglob("*") if file.is_file()]
    assert 100_000 < sum(file.stat().st_size for file in files) <= 1_500_000


def test_a_folder_comes_before_a_model_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    workdir, checkpoint = located(Path("dates"))
    assert (workdir, checkpoint) == (TRAINED / "dates", "best")
    assert located(Path("dates/checkpoints/last")) == (TRAINED / "dates", "last")
    Path("dates").mkdir()
    assert located(Path("dates")) == (Path("dates"), "best")
    assert located(Path("other")) == (Path("other"), "best")
