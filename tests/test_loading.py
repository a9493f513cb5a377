"""Loading what earlier versions have trained."""

import attn_jax
from attn_jax.data.datasets import open_corpus
from attn_jax.models.attention import Attention
from attn_jax.runs.folder import settle
from attn_jax.runs.training import train_alone

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
