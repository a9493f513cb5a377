"""The tests that `test_devices.py` runs in a process with four devices."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Train
from attn_jax.models.randomness import by_row
from attn_jax.recipe.losses import Guided
from attn_jax.tokens import EOS, PAD, Batch
from attn_jax.training import running
from attn_jax.training.devices import (
    data_parallel,
    first_replica,
    make_mesh,
    replicate,
    split,
    summary,
)
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.options import train_options
from tests.training import test_loop
from tests.training.test_step import RANDOM, make

RNG = jax.random.key(1)


def batch():
    """Eight pairs of several lengths, so that devices have different numbers of tokens."""
    generator = np.random.default_rng(0)
    source = generator.integers(4, 11, (8, 6), np.int32)
    target = generator.integers(4, 13, (8, 5), np.int32)
    for row, length in enumerate([1, 4, 5, 2, 5, 5, 3, 1]):
        target[row, length - 1 :] = [EOS] + [PAD] * (5 - length)
        source[row, length + 1 :] = PAD
    links = np.zeros((8, 5, 6), np.float32)
    links[:, 0, 0] = 1
    return source, target, links


@pytest.mark.parametrize(
    ("model", "train"),
    [
        ({}, {}),
        ({"decoder": "luong_input_feeding", "score": "general"}, {"mean_over": "sentence"}),
        ({"encoder": "transformer", "decoder": "transformer", "score": "dot"}, {"average": 0.9}),
        ({"score": "coverage"}, {"microbatches": 2}),
        *RANDOM.values(),
        ({"dropout": 0.3}, {"microbatches": 2}),
    ],
)
def test_four_devices_go_where_one_does(model, train):
    """The oracle is the step on one device, which other tests compare with formulas.

    Steps use plain gradient descent: Adam's division would magnify the smallest differences.
    """
    options = {"optimizer": "sgd", "learning_rate": 0.5, "warmup_steps": 0, "batch_size": 8}
    weighted = {"losses": "guided(weight=0.5)+coverage(weight=0.1)"}
    config = train_options(**(options | weighted | train))
    recipe = recipe_of(config)
    source, target, links = batch()
    begun = make(**model)
    mesh = make_mesh(config)
    assert mesh.size == 4
    one, four = (init_state(jax.tree.map(jnp.copy, begun), recipe) for _ in range(2))
    four, rng = replicate((four, RNG), mesh)
    rows = split(Batch(source, target, links), mesh)
    for _ in range(3):
        one, loss = train_step(one, Batch(source, target, links), RNG, recipe=recipe)
        four, again = train_step(four, rows, rng, recipe=recipe, mesh=mesh)
        np.testing.assert_allclose(loss, again, rtol=1e-5)
    for plain, other, first in zip(
        one.leaves,
        first_replica(four).leaves,
        jax.tree.leaves(init_state(begun, recipe)),
        strict=True,
    ):
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-6)
        assert other.devices() == first.devices()


def test_all_devices_skip_a_step_that_is_not_finite_on_one():
    config = Train(batch_size=8, losses=(Guided(),))
    recipe = recipe_of(config)
    mesh = make_mesh(config)
    state = replicate(init_state(make(), recipe), mesh)
    before = jax.device_get(state.leaves)
    source, target, links = batch()
    links[3] = np.nan
    state, loss = train_step(state, Batch(source, target, links), RNG, recipe=recipe, mesh=mesh)
    assert jnp.isnan(loss)
    assert state.parts.step == 1
    for device in range(4):
        for old, new in zip(before[1:], state.leaves[1:], strict=True):
            np.testing.assert_array_equal(old, new.addressable_data(device))


@pytest.mark.parametrize("decoder", ["bahdanau", "transformer"])
def test_devices_send_one_another_nothing_but_sums(decoder):
    config = Train(batch_size=8)
    recipe = recipe_of(config)
    mesh = make_mesh(config)
    model = make(decoder=decoder)
    lowered = train_step.lower(
        replicate(init_state(model, recipe), mesh),
        split(Batch(*batch()[:2]), mesh),
        replicate(RNG, mesh),
        recipe=recipe,
        mesh=mesh,
    )
    sent = re.findall(
        r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(",
        lowered.compile().as_text(),
    )
    assert set(sent) == {"all-reduce"}


def test_keys_go_with_their_rows():
    def drawn(model, batch):
        rows, rng = batch
        return jnp.zeros(8).at[rows].set(jax.vmap(jax.random.uniform)(rng))

    batch = jnp.arange(8), by_row(RNG, 8)
    numbers = data_parallel(drawn, make_mesh(Train(batch_size=8)))({}, batch)
    assert len(set(numbers.tolist())) == 8
    np.testing.assert_array_equal(numbers, drawn({}, batch))


@pytest.mark.parametrize(
    ("batch_size", "microbatches", "count", "told"),
    [
        (64, 1, 4, "on 4 of 4 devices: cpu, 16 pairs of a batch on each"),
        (6, 1, 3, "on 3 of 4 devices: cpu, 2 pairs of a batch on each; more do not divide it"),
        (
            8,
            4,
            2,
            "on 2 of 4 devices: cpu, 4 pairs of a batch on each; more do not divide its parts",
        ),
        (5, 1, None, "on 1 of 4 devices: cpu, 5 pairs of a batch on each; more do not divide it"),
    ],
)
def test_devices_have_as_many_rows(batch_size, microbatches, count, told):
    config = Train(batch_size=batch_size, microbatches=microbatches)
    mesh = make_mesh(config)
    assert (mesh.size if mesh else None) == count
    assert summary(config).removesuffix(" evenly") == told


def test_runs_on_four_devices_go_on_there_and_on_one(tmp_path, monkeypatch):
    options = {"batch_size": 8, "valid_every": 3, "buckets": 1}
    _, _, through, _ = test_loop.train(tmp_path / "a", **options)
    test_loop.train(tmp_path / "b", steps=3, **options)
    _, _, pieces, _ = test_loop.train(tmp_path / "b", **options)
    for name, leaf in through.items():
        np.testing.assert_array_equal(leaf, pieces[name])

    test_loop.train(tmp_path / "c", steps=3, **options)
    monkeypatch.setattr(running, "make_mesh", lambda config: None)
    _, _, one, _ = test_loop.train(tmp_path / "c", **options)
    for name, leaf in through.items():
        np.testing.assert_allclose(leaf, one[name], rtol=1e-3, atol=1e-5)
