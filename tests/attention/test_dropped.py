"""Dropout of weights: a normalizer that holds another one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Mechanism, Normalizer, attend_all
from attn_jax.attention import (
    Dot,
    Dropped,
    Exponential,
    Forward,
    General,
    Gmm,
    LocalM,
    Mocha,
    Monotonic,
    Null,
    Softmax,
)
from attn_jax.config.reading import read
from attn_jax.errors import InputError
from tests.drawn import drawn
from tests.options import model_options

T, S, D = 40, 9, 8
MASK = np.arange(S) < 7
OTHERS = [Softmax(), Null(), Forward(), Monotonic(noise=0), Mocha(noise=0)]
SOURCE, TARGET = np.array([[4, 5, 6, 2], [7, 4, 2, 0]]), np.array([[5, 8, 2], [6, 2, 0]])
every = pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.name)


def weights(normalizer, generator, rng=None):
    """What is summed, from values of which each is a position by itself, and what is shown."""
    mechanism = Mechanism(General(), normalizer=normalizer)
    p = mechanism.init(jax.random.key(0), D, D)
    queries, annotations = (generator.normal(size=size) for size in ((T, D), (S, D)))
    made = attend_all(mechanism, p, queries, annotations, MASK, values=np.eye(S), rng=rng)
    return tuple(map(np.asarray, made))


@every
def test_in_use_it_is_the_other_normalizer(other):
    seeds = (np.random.default_rng(7) for _ in range(2))
    found, expected = map(weights, (Dropped(other, rate=0.5), other), seeds)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


@every
def test_in_training_it_drops_weights_and_raises_the_others(other):
    rng = jax.random.key(3)
    seeds = (np.random.default_rng(7) for _ in range(2))
    found, expected = (
        weights(one, seed, rng)
        for one, seed in zip((Dropped(other, rate=0.25), other), seeds, strict=True)
    )
    dropped, shown = found
    np.testing.assert_array_equal(shown, expected[1])
    kept = dropped > 0
    np.testing.assert_allclose(dropped, np.where(kept, expected[1] / 0.75, 0), rtol=1e-5)
    real = expected[1] > 0
    share = kept[real].mean()
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / real.sum()) ** 0.5


def test_the_noise_of_the_other_is_that_which_it_has_alone():
    rng = jax.random.key(3)
    seeds = (np.random.default_rng(7) for _ in range(2))
    others = Dropped(Monotonic(), rate=0.25), Monotonic()
    found, expected = (weights(one, seed, rng)[1] for one, seed in zip(others, seeds, strict=True))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("decoder", ["bahdanau", "luong", "transformer"])
def test_losses_and_later_steps_see_weights_before_dropout(decoder):
    """A score that reads the last weights makes each step see those of the step before."""
    found = {}
    for normalizer in ("softmax", "dropped(softmax,rate=0.9)"):
        options = model_options(
            score="location_aware(units=3,filters=2)",
            normalizer=normalizer,
            decoder=decoder,
            encoder="transformer" if decoder == "transformer" else "bidirectional",
            hidden_size=4,
            embedding_size=4,
        )
        reading = drawn(options, 9, 9).read(SOURCE, TARGET, jax.random.split(jax.random.key(3)))
        found[normalizer] = np.asarray(reading.weights)
    dropped = found["dropped(softmax,rate=0.9)"]
    real = np.asarray(TARGET != 0)[:, None, None]
    np.testing.assert_allclose(np.where(real, dropped.sum(axis=-1), 1), 1, rtol=1e-5)
    # The first layer and step see no context yet.
    np.testing.assert_allclose(dropped[:, 0, :, 0], found["softmax"][:, 0, :, 0], rtol=1e-5)


def test_what_a_class_says_is_that_of_the_other():
    facts = "scores", "moves", "needs_logarithms", "is_stateful"
    for other in (*OTHERS, Exponential()):
        held = Dropped(other)
        assert [getattr(held, fact) for fact in facts] == [getattr(other, fact) for fact in facts]
        assert held.carried == other.carried
    assert not Mechanism(Dot(), normalizer=Dropped(Softmax())).looks_back
    assert Mechanism(Dot(), normalizer=Dropped(Forward())).looks_back


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((Dot(), LocalM(), Dropped(Forward())), "moves through the source itself"),
        ((Dot(), LocalM(), Dropped(Exponential())), "dropped needs logarithms of weights"),
        ((Gmm(), LocalM(), Dropped(Exponential())), "acts as a window"),
    ],
)
def test_combinations_are_refused_as_those_of_the_other(parts, message):
    with pytest.raises(InputError, match=message):
        Mechanism(*parts)


def test_it_has_a_text_and_bounds():
    value = Dropped(Mocha(chunk=2), rate=0.2)
    assert str(value) == "dropped(mocha(noise=1.0,r=-1.0,chunk=2),rate=0.2)"
    assert read(Normalizer, str(value)) == read(Normalizer, value.brief()) == value
    assert read(Normalizer, "dropped(softmax)") == Dropped(Softmax(), rate=0.1)
    with pytest.raises(InputError, match="dropped: rate must be at least 0 and less than 1"):
        Dropped(Softmax(), rate=1)


def test_gradients_are_finite_also_where_all_weights_are_dropped(generator):
    mechanism = Mechanism(General(), normalizer=Dropped(Softmax(), rate=0.95))
    queries, annotations = (jnp.float32(generator.normal(size=n)) for n in ((T, D), (2, D)))
    p = mechanism.init(jax.random.key(0), D, D)

    def total(p):
        contexts, _ = attend_all(mechanism, p, queries, annotations, rng=jax.random.key(1))
        return contexts.sum(), contexts

    gradient, contexts = jax.grad(total, has_aux=True)(p)
    assert np.any((contexts == 0).all(axis=1))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
