"""Checks before a run starts."""

import re

import pytest

from attn_jax.config import Model, experiment
from attn_jax.errors import InputError
from attn_jax.models.heads import Sizes
from attn_jax.runs.checks import check, check_encoder, check_parts

PARTS = """
import jax
import jax.numpy as jnp
from attn_jax import Score

class Sharp(Score):
    sharpness: float = 2.0

    def score(self, p, query, keys, past):
        return self.sharpness * (keys @ jnp.tile(query, 2)[: keys.shape[1]])

class FromTheEnd(Sharp):
    def score(self, p, query, keys, past):
        return super().score(p, query, keys, past) + jnp.log(len(keys) - jnp.arange(len(keys)))

class Fails(Sharp):
    def score(self, p, query, keys, past):
        return keys @ query[:3]

def forgets(scores, mask):
    return jax.nn.softmax(scores)

def reaches_all(query, mask):
    return jnp.zeros(mask.shape)
"""
SIZES = Sizes(8, 12)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of parts."""
    (tmp_path / "checked_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))


def model(**parts):
    return experiment({f"model.{kind}": text for kind, text in parts.items()}).model


def test_parts_of_ones_own_are_checked_at_the_sizes_of_the_run(own):
    good = {"score": "checked_parts:Sharp", "window": "checked_parts:reaches_all"}
    check_parts(model(), SIZES)
    check_parts(model(**good), SIZES)
    for kind, text, told in (
        ("score", "checked_parts:FromTheEnd(sharpness=3.0)", "weights .* it is padded from 8"),
        ("score", "projected(checked_parts:FromTheEnd(sharpness=2.0),units=4)", "it is padded"),
        (
            "score",
            "checked_parts:Fails(sharpness=2.0)",
            r"\(checked_parts.py, line 1",
        ),
        ("normalizer", "checked_parts:forgets", "where the mask is False get a weight of 0."),
    ):
        for _ in range(2):
            with pytest.raises(InputError) as raised:
                check_parts(model(**good | {kind: text}), SIZES)
            assert re.match(re.escape(f"model.{kind}={text}: "), str(raised.value))
            assert re.search(told, str(raised.value))


def test_a_run_with_a_part_that_reads_padding_does_not_start(own):
    sizes = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}
    options = {f"model.{name}": size for name, size in sizes.items()}
    check(experiment(options | {"model.score": "checked_parts:Sharp"}))
    with pytest.raises(InputError, match=r"model\.score=checked_parts:FromTheEnd.* padded from"):
        check(experiment(options | {"model.score": "checked_parts:FromTheEnd"}))


ENCODERS = """
import jax.numpy as jnp
from flax import nnx
from attn_jax.models.source import Summary

class Heeds(nnx.Module):
    def __init__(self, config, *, rngs):
        self.summary_size = config.annotation_size
        self.map = nnx.Conv(config.embedding_size, config.annotation_size, (3,), rngs=rngs)

    def read(self, words, mask):
        annotations = self.map(jnp.where(mask[..., None], words, 0))
        return annotations, annotations.mean(axis=1, where=mask[..., None])

    def __call__(self, words, mask, rng=None):
        annotations, mean = self.read(words, mask)
        return annotations, Summary(mean, ())

class ReadsPadding(Heeds):
    def read(self, words, mask):
        annotations = self.map(words)
        return annotations, annotations.mean(axis=1, where=mask[..., None])

class SumsPaddingUp(Heeds):
    def read(self, words, mask):
        annotations, mean = super().read(words, mask)
        return annotations, annotations.mean(axis=1)
"""


def test_an_encoder_of_ones_own_reads_no_padding(tmp_path, monkeypatch):
    (tmp_path / "own_encoders.py").write_text(ENCODERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_encoder(Model())
    check_encoder(Model(encoder="own_encoders:Heeds"))
    for name in ("ReadsPadding", "SumsPaddingUp"):
        with pytest.raises(InputError, match=f"own_encoders:{name} depends on padding"):
            check_encoder(Model(encoder=f"own_encoders:{name}"))
