"""Checks before a run starts."""

import pytest
from attn_jax.attention.parts import Sizes

from attn_jax.config import Model
from attn_jax.errors import InputError
from experiments.checks import check_encoder, check_mask

PARTS = """
import jax
import jax.numpy as jnp
from attn_jax import part

def heeds(scores, mask):
    return jax.nn.softmax(scores, where=mask)

def forgets(scores, mask):
    return jax.nn.softmax(scores)

def forgets_but_seldom(scores, mask):
    kept = jax.nn.relu(scores)
    return kept / (kept.sum() + 1e-6)

def divides_by_all(scores, mask):
    return jnp.where(mask, jax.nn.softmax(scores), 0)

def shifts_by_all(scores, mask):
    return jax.nn.softmax(scores - scores.max(), where=mask)

def divides_by_their_spread(scores, mask):
    return jax.nn.softmax(scores / (scores.std() + 1e-3), where=mask)

@part(keys=lambda annotations: 2 * annotations)
def compares(query, keys):
    return keys @ query

def compares_standardized(query, keys):
    return (keys / (keys.std(axis=0) + 1e-3)) @ query

def not_finite(query, keys):
    return keys @ query * jnp.nan

@part(decoding=heeds)
def noisy(scores, mask, *, rng):
    return heeds(scores + jax.random.normal(rng, scores.shape), mask)

@part(decoding=forgets)
def noisy_and_forgets(scores, mask, *, rng):
    return noisy(scores, mask, rng=rng)

@part(shapes=lambda sizes: {"scale": ()})
def scaled(scores, mask, *, scale, power=1.0):
    return jax.nn.softmax(scale * scores**power)

@part(start=lambda mask: jnp.zeros(mask.shape))
def counts_positions(scores, mask, *, carry):
    return heeds(scores * (1 + carry.sum()), mask), carry + 1

@part(start=lambda mask: jnp.zeros(mask.shape))
def counts_words(scores, mask, *, carry):
    return heeds(scores * (1 + carry.sum()), mask), carry + mask

def forgets_later(scores, mask, *, step):
    return jax.nn.softmax(scores, where=mask | (step > 1))

def five_best(scores, mask):
    least = jax.lax.top_k(jnp.where(mask, scores, -jnp.inf), 5)[0][-1]
    return jax.nn.softmax(scores, where=mask & (scores >= least))

def five_best_of_longer_ones(scores, mask):
    least = jax.lax.top_k(jnp.where(mask, scores, -jnp.inf), 5)[0][-1]
    return jax.nn.softmax(scores, where=scores >= least)

def layer_shapes(sizes):
    return {"W": (sizes.Q, sizes.A), "U": (sizes.D, sizes.A), "v": (sizes.A,)}

@part(shapes=layer_shapes, keys=lambda annotations, *, U: annotations @ U)
def perceptron(query, keys, *, W, v):
    return jnp.tanh(query @ W + keys) @ v

@part(shapes=layer_shapes, keys=lambda annotations, *, U: annotations @ U)
def perceptron_of_all(query, keys, *, W, v):
    return jnp.tanh(query @ W + keys - keys.mean(axis=0)) @ v

def undefined(scores, mask):
    return scores * jnp.nan

def everywhere(query, mask):
    return jnp.ones_like(mask), jnp.ones(mask.shape)

def nearby(query, mask, *, step):
    return mask & (jnp.arange(mask.size) <= step), jnp.ones(mask.shape)
"""


@pytest.mark.parametrize("sizes", [Sizes(1, 1, 1), Sizes(2, 2, 2), Sizes(256, 256, 64)])
def test_parts_of_ones_own_attend_to_no_padding(tmp_path, monkeypatch, sizes):
    (tmp_path / "masked_parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_mask("normalizer", "softmax", sizes)
    for name in ("heeds", "shifts_by_all", "noisy", "counts_words", "undefined", "five_best"):
        check_mask("normalizer", f"masked_parts:{name}", sizes)
    check_mask("window", "masked_parts:nearby", sizes)
    for name in ("compares", "not_finite", "perceptron"):
        check_mask("score", f"masked_parts:{name}", sizes)
    for what, name in (
        ("normalizer", "forgets"),
        ("normalizer", "forgets_but_seldom"),
        ("normalizer", "divides_by_all"),
        ("normalizer", "divides_by_their_spread"),
        ("normalizer", "noisy_and_forgets"),
        ("normalizer", "counts_positions"),
        ("normalizer", "forgets_later"),
        ("normalizer", "five_best_of_longer_ones"),
        ("normalizer", "scaled(power=2)"),
        ("score", "compares_standardized"),
        ("score", "perceptron_of_all"),
        ("window", "everywhere"),
    ):
        with pytest.raises(
            InputError, match=f"--model.{what}=.*gives weight to padding, where its mask is False"
        ):
            check_mask(what, f"masked_parts:{name}", sizes)


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
