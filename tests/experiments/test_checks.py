"""Checks before a run starts."""

import pytest

from attn_jax.config import Model
from attn_jax.errors import InputError
from experiments.checks import check_encoder

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
