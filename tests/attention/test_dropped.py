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
from attn_jax.config.value_text import read
from attn_jax.errors import InputError

T, S, D = 40, 9, 8
MASK = np.arange(S) < 7
OTHERS = [Softmax(), Null(), Forward(), Monotonic(noise=0), Mocha(noise=0)]
every = pytest.mark.parametrize("other", OTHERS, ids=lambda one: one.name)


def weights(normalizer, generator, rng=None):
    mechanism = Mechanism(General(), normalizer=normalizer)
    p = mechanism.init(jax.random.key(0), D, D)
    queries, annotations = (generator.normal(size=size) for size in ((T, D), (S, D)))
    made = attend_all(mechanism, p, queries, annotations, MASK, rng=rng)
    return *map(np.asarray, made), annotations


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
    contexts, dropped, annotations = found
    kept = dropped > 0
    np.testing.assert_allclose(dropped, np.where(kept, expected[1] / 0.75, 0), rtol=1e-5)
    real = expected[1] > 0
    share = kept[real].mean()
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / real.sum()) ** 0.5
    np.testing.assert_allclose(contexts, dropped @ annotations, rtol=1e-3, atol=1e-5)


def test_the_noise_of_the_other_is_that_which_it_has_alone():
    rng = jax.random.key(3)
    seeds = (np.random.default_rng(7) for _ in range(2))
    others = Dropped(Monotonic(), rate=0.25), Monotonic()
    found, expected = (weights(one, seed, rng)[1] for one, seed in zip(others, seeds, strict=True))
    np.testing.assert_allclose(found[found > 0], expected[found > 0] / 0.75, rtol=1e-5)


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
    assert str(value) == "dropped(mocha(noise=1.0,chunk=2),rate=0.2)"
    assert read(Normalizer, str(value)) == read(Normalizer, value.brief()) == value
    assert read(Normalizer, "dropped(softmax)") == Dropped(Softmax(), rate=0.1)
    with pytest.raises(InputError, match="dropped: rate must be at least 0 and less than 1"):
        Dropped(Softmax(), rate=1)


def test_gradients_are_finite_also_where_all_weights_are_dropped(generator):
    mechanism = Mechanism(General(), normalizer=Dropped(Softmax(), rate=0.95))
    queries, annotations = (jnp.float32(generator.normal(size=n)) for n in ((T, D), (2, D)))
    p = mechanism.init(jax.random.key(0), D, D)

    def total(p):
        found = attend_all(mechanism, p, queries, annotations, rng=jax.random.key(1))
        return found[0].sum(), found[1]

    gradient, shown = jax.grad(total, has_aux=True)(p)
    assert np.any(shown.sum(axis=1) == 0)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
