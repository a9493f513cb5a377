"""Checks before a run starts."""

import re

import pytest

from attn_jax.config import Model, experiment
from attn_jax.errors import InputError
from attn_jax.models.heads import Sizes
from attn_jax.runs.checks import check, check_encoder, check_parts
from tests.stages import full

pytestmark = full

PARTS = """
import jax
import jax.numpy as jnp
from attn_jax import Gate, Mixing, Score, Values

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

class Smears(Values):
    reads_embeddings = True

    def values(self, p, annotations, embeddings, mask):
        return embeddings + embeddings.mean(axis=0)

class Normed(Gate):
    def gate(self, p, state, context):
        assert state.shape == (256,), state.shape
        assert context.shape == (5,), context.shape
        return context * jax.lax.rsqrt(jnp.square(context).mean() + 1e-6)

class Divides(Gate):
    def gate(self, p, state, context):
        return context / jnp.abs(context).max()

class Differs(Mixing):
    def weights(self, p, weights):
        return weights - 0.5 * weights[::-1]
"""
SIZES = Sizes(8, 12, 5)


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
    check_parts(model(gate="checked_parts:Normed"), SIZES)
    for kind, text, told in (
        ("score", "checked_parts:FromTheEnd(sharpness=3.0)", "weights .* it is padded from 8"),
        ("score", "projected(checked_parts:FromTheEnd(sharpness=2.0),units=4)", "it is padded"),
        (
            "score",
            "checked_parts:Fails(sharpness=2.0)",
            r"\(checked_parts.py, line 1",
        ),
        ("normalizer", "checked_parts:forgets", "where the mask is False get a weight of 0."),
        ("values", "checked_parts:Smears", "what lies where the mask is False changes"),
        ("gate", "checked_parts:Divides", "contexts are not all 0 where the mask is False"),
        ("mixing", "checked_parts:Differs", "may be negative: give its class non_negative = False"),
    ):
        for _ in range(2):
            with pytest.raises(InputError) as raised:
                check_parts(model(**good | {kind: text}), SIZES)
            assert re.match(re.escape(f"model.{kind}={text}: "), str(raised.value))
            assert re.search(told, str(raised.value))


def test_parts_of_the_mechanism_of_a_second_source_are_checked_too(own):
    for sources, told in (
        ("concatenated(score=checked_parts:FromTheEnd)", "it is padded"),
        ("hierarchical(normalizer=checked_parts:forgets)", "get a weight of 0."),
    ):
        with pytest.raises(InputError, match=rf"model.sources={sources[:12]}.*: .*{told}"):
            check_parts(model(sources=sources), SIZES)


def test_a_run_with_a_part_that_reads_padding_does_not_start(own):
    sizes = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}
    options = {f"model.{name}": size for name, size in sizes.items()}
    check(experiment(options | {"model.score": "checked_parts:Sharp"}))
    with pytest.raises(InputError, match=r"model\.score=checked_parts:FromTheEnd.* padded from"):
        check(experiment(options | {"model.score": "checked_parts:FromTheEnd"}))


ENCODERS = """
import jax.numpy as jnp
from flax import nnx
from attn_jax.models.protocols import Summary

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


DECODERS = """
from attn_jax.models.decoders import Bahdanau

class Own(Bahdanau):
    def project(self, encoded):
        return super().project(encoded._replace(annotations=2 * encoded.annotations))
"""
SMALL = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}


def options(**of_model):
    return {f"model.{name}": value for name, value in (SMALL | of_model).items()}


@pytest.mark.parametrize("values", ["key_value", "sum"])
def test_a_decoder_of_ones_own_may_change_what_is_encoded(tmp_path, monkeypatch, values):
    (tmp_path / "own_decoders.py").write_text(DECODERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    check(experiment(options(decoder="own_decoders:Own", values=values)))


@pytest.mark.parametrize("loss", ["coverage", "guided"])
def test_losses_of_weights_need_weights_that_are_not_negative(loss):
    of_run = options(mixing="talking_heads", heads=2) | {"train.losses": loss}
    with pytest.raises(InputError, match=r"model\.mixing=talking_heads may give negative weights"):
        check(experiment(of_run))


@pytest.mark.parametrize(
    ("of_model", "message"),
    [
        ({"values": "key_value", "annotation_size": 7, "encoder": "backward"}, "even in number"),
        ({"values": "embeddings", "score": "dot"}, None),
        ({"values": "key_value", "score": "dot"}, "one size, got 6 and 3"),
        ({"values": "sum", "decoder": "transformer", "projection": "none"}, "the 4 features of wh"),
        ({"values": "embeddings", "heads": 3}, "heads=3 does not divide the 4 features of the con"),
        ({"mixing": "talking_heads"}, "mixes heads, and there is one: give model.heads"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_sentence(of_model, message):
    if message is None:
        check(experiment(options(**of_model)))
        return
    with pytest.raises(InputError, match=message):
        check(experiment(options(**of_model)))


def test_a_schedule_that_ends_before_the_training_is_refused():
    options = {"train.schedule": "linear(until=50)", "train.steps": 60}
    with pytest.raises(InputError, match=r"before train\.steps=60: give .*=linear\(until=60\)$"):
        check(experiment(options))
