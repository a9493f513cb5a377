"""A step with a loss and an optimiser of ones own, and with those that options describe."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from attn_jax.attention.head_names import Single
from attn_jax.config import Train
from attn_jax.recipe.losses import Coverage, Guided
from attn_jax.recipe.optimizer import SGD
from attn_jax.tokens import PAD, Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.objective import Objective
from attn_jax.training.step import Recipe, init_state, train_step
from tests.training.test_step import LINKS, SOURCE, TARGET, make


def sum_of_biases(model, batch, step, rng):
    """A loss whose gradient is seen at once: how often a word is in the target sentences."""
    biases = model.words.output.bias[...][batch.target]
    return jnp.where(batch.target != PAD, biases, 0).sum()


def test_a_step_with_a_loss_and_an_optimizer_of_ones_own():
    model = make()
    before = jax.tree.map(np.array, model)
    recipe = Recipe(sum_of_biases, optax.sgd(0.5))
    state, loss = train_step(
        init_state(model, recipe), Batch(SOURCE, TARGET), jax.random.key(0), recipe=recipe
    )
    after = state.result
    counts = np.bincount(np.array(TARGET)[np.array(TARGET) != PAD], minlength=13)
    expected = before.words.output.bias[...] - 0.5 * counts / 9  # of 9 tokens
    np.testing.assert_allclose(after.words.output.bias[...], expected, rtol=1e-6)
    np.testing.assert_allclose(loss, (before.words.output.bias[...] * counts).sum() / 9, rtol=1e-6)
    after.words.output.bias[...] = before.words.output.bias[...]
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(one, other)  # nothing else has moved


def test_the_loss_of_ones_own_sees_the_parts_of_a_batch_and_its_links():
    seen = []

    def loss(model, batch, step, rng):
        seen.append([leaf.shape for leaf in batch] + [rng.shape])
        return sum_of_biases(model, batch, step, rng)

    updated = []
    for microbatches in (1, 2):
        recipe = Recipe(loss, optax.sgd(0.5), microbatches=microbatches)
        state = init_state(make(), recipe)
        state, _ = train_step(state, Batch(SOURCE, TARGET, LINKS), jax.random.key(0), recipe=recipe)
        updated.append(state.result.words.output.bias[...])
    np.testing.assert_allclose(*updated, rtol=1e-6)
    assert seen[0] == [(4, 4), (4, 3), (4, 3, 4), (4,)]
    assert seen[-1] == [(2, 4), (2, 3), (2, 3, 4), (2,)]


def test_one_recipe_is_compiled_once():
    """An optimiser of Optax is equal to itself only, so that it has to be made once."""
    batch, compiled = Batch(SOURCE, TARGET), train_step._cache_size()
    recipe = Recipe(Objective(), optax.adam(1e-3))
    state = init_state(make(), recipe)
    for _ in range(3):
        state, _ = train_step(state, batch, jax.random.key(0), recipe=recipe)
    assert train_step._cache_size() == compiled + 1


def test_equal_options_share_a_compiled_program():
    def step(**options):
        config = Train(**options)
        state = init_state(make(), recipe_of(config))
        train_step(state, Batch(SOURCE, TARGET), jax.random.key(0), recipe=recipe_of(config))

    step(learning_rate=0.01)
    compiled = train_step._cache_size()
    step(learning_rate=0.01)
    # What a step does not compute with is not compiled for.
    step(learning_rate=0.01, steps=7, valid_every=3)
    assert train_step._cache_size() == compiled
    step(learning_rate=0.02)
    assert train_step._cache_size() == compiled + 1


def test_options_become_one_recipe():
    losses = Coverage(weight=0.2), Guided(weight=0.3, head=Single(layer=1, head=2))
    config = Train(
        optimizer=SGD(),
        label_smoothing=0.1,
        losses=losses,
        scheduled_sampling=0.4,
        sampling_steps=5,
        microbatches=2,
        average=0.9,
    )
    recipe = recipe_of(config)
    assert recipe == recipe_of(config)
    assert hash(recipe) == hash(recipe_of(config))
    assert recipe.loss == Objective(
        label_smoothing=0.1,
        losses=losses,
        sampling=0.4,
        sampling_steps=5,
    )
    assert (recipe.microbatches, recipe.average) == (2, 0.9)
