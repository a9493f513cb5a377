"""Runs with values apart from keys, gates, mixed heads and dropped weights, and what uses runs."""

import numpy as np
import pytest

import attn_jax
from attn_jax.errors import InputError
from tests.stages import full

pytestmark = full

OPTIONS = {
    "data.name": "reverse",
    "data.examples": 100,
    "data.held_out": 10,
    "data.shortest": 2,
    "data.longest": 5,
    "model.embedding_size": 4,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.score": "additive(units=4)",
    "model.heads": 2,
    "model.values": "sum",
    "model.gate": "elementwise",
    "model.mixing": "talking_heads",
    "model.normalizer": "dropped(softmax,rate=0.2)",
    "train.steps": 4,
    "train.valid_every": 2,
    "train.buckets": 1,
}
SENTENCES = ["a b c", "d"]


@pytest.mark.parametrize("decoder", ["luong_input_feeding", "transformer"])
def test_a_run_trains_goes_on_translates_aligns_and_is_exported(tmp_path, decoder):
    run = tmp_path / "run"
    of_run = OPTIONS | {"model.decoder": decoder}
    attn_jax.train(of_run, run)
    attn_jax.train({"train.steps": 6}, run)
    attn_jax.train(of_run | {"train.steps": 6}, tmp_path / "whole")
    translator, whole = (attn_jax.load(folder, "last") for folder in (run, tmp_path / "whole"))
    found = translator.translate(SENTENCES, beam_size=2)
    for one, other in zip(found, whole.translate(SENTENCES, beam_size=2), strict=True):
        assert one.text == other.text
        np.testing.assert_array_equal(one.weights, other.weights)
    scores = translator.score(SENTENCES, found)
    np.testing.assert_allclose(scores, [one.log_probability for one in found], rtol=1e-4)
    assert all(np.isfinite(each).all() for each in translator.align(SENTENCES, SENTENCES))

    attn_jax.export(run, tmp_path / "file", source_length=6, beam_size=2)
    found = attn_jax.load(run).translate(SENTENCES, beam_size=2)
    exported = attn_jax.load_exported(tmp_path / "file").translate(SENTENCES)
    assert [one.text for one in exported] == [one.text for one in found]

    with pytest.raises(InputError, match="coverage_penalty needs weights that are not negative"):
        translator.translate(SENTENCES, beam_size=2, coverage_penalty=0.2)
    with pytest.raises(InputError, match="a posterior needs weights that are not negative"):
        translator.align(SENTENCES, SENTENCES, of="posterior")
