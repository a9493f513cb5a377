"""The loss and the schedule by hand and in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.training.losses import coverage_loss, cross_entropy, mean_loss
from attn_jax.training.optimizer import make_optimizer, make_schedule


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_equals_a_loop(generator, smoothing):
    logits, targets = generator.normal(size=(3, 5, 7)), generator.integers(0, 7, (3, 5))
    actual = cross_entropy(jnp.asarray(logits, jnp.float32), jnp.asarray(targets), smoothing)
    for index in np.ndindex(3, 5):
        p = np.exp(logits[index]) / np.exp(logits[index]).sum()
        q = np.full(7, smoothing / 7)
        q[targets[index]] += 1 - smoothing
        np.testing.assert_allclose(actual[index], -(q * np.log(p)).sum(), rtol=1e-5)


def test_the_mean_is_over_real_tokens_alone(generator):
    output = nnx.Linear(5, 7, rngs=nnx.Rngs(0))
    features = jnp.asarray(generator.normal(size=(2, 3, 5)), jnp.float32)
    targets = jnp.array([[1, 2, 3], [4, 0, 0]])
    mask = targets != 0
    losses = cross_entropy(output(features), targets)
    expected = (losses[0].sum() + losses[1, 0]) / 4
    np.testing.assert_allclose(mean_loss(features, output, targets, mask, 0.0), expected, rtol=1e-6)
    gradient = jax.grad(mean_loss)(features, output, targets, mask, 0.1)
    assert not np.any(gradient[1, 1:])
    assert mean_loss(features, output, targets, jnp.zeros((2, 3), bool), 0.0) == 0


def step_sizes(config, steps):
    return [make_schedule(config)(jnp.asarray(step)) for step in range(steps)]


def test_warm_up_then_constant():
    sizes = step_sizes(Train(learning_rate=0.5, warmup_steps=4), 6)
    np.testing.assert_allclose(sizes, [0.125, 0.25, 0.375, 0.5, 0.5, 0.5], rtol=1e-6)


def test_warm_up_then_inverse_square_root():
    sizes = step_sizes(Train(learning_rate=0.5, warmup_steps=4, schedule="inverse_sqrt"), 16)
    np.testing.assert_allclose(sizes[3], 0.5, rtol=1e-5)
    np.testing.assert_allclose(sizes[15], 0.25, rtol=1e-5)


def test_an_unknown_schedule():
    with pytest.raises(InputError, match="allowed: constant, inverse_sqrt"):
        make_optimizer(Train(schedule="cosine"))


def test_long_gradients_are_cut_to_the_norm():
    """Adam forgets the length of a constant gradient, but not how it changes."""
    optimizer = make_optimizer(Train(learning_rate=1.0, warmup_steps=0, clip_norm=1.0))
    state = optimizer.init(jnp.zeros(2))
    for gradient in ([3.0, 4.0], [0.3, 0.4]):
        update, state = optimizer.update(jnp.array(gradient), state)
    first, second = 0.6, 0.3  # clipped, and as it was
    mean = (0.9 * 0.1 * first + 0.1 * second) / (1 - 0.9**2)
    square = (0.999 * 0.001 * first**2 + 0.001 * second**2) / (1 - 0.999**2)
    # float32 keeps five digits of 1 - 0.999².
    np.testing.assert_allclose(update[0], -mean / np.sqrt(square), rtol=1e-4)


def test_coverage_loss_by_hand():
    # The second step attends 0.5 and 0.4 again, the third, which is padding, does not count.
    alignment = jnp.array([[0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])[None, None, None]
    mask = jnp.array([[True, True, False]])
    np.testing.assert_allclose(coverage_loss(alignment, mask), 0.9 / 2, rtol=1e-6)
    np.testing.assert_allclose(coverage_loss(alignment, mask | True), 1.9 / 3, rtol=1e-6)


def test_coverage_loss_equals_a_loop(generator):
    alignment = generator.dirichlet(np.ones(5), size=(2, 3, 2, 4)).astype(np.float32)
    lengths = (4, 2)
    mask = np.arange(4) < np.array(lengths)[:, None]
    total = 0.0
    for row, length in enumerate(lengths):
        for layer, head, step in np.ndindex(3, 2, length):
            before = alignment[row, layer, head, :step].sum(axis=0)
            total += np.minimum(alignment[row, layer, head, step], before).sum() / 6
    actual = coverage_loss(jnp.asarray(alignment), jnp.asarray(mask))
    np.testing.assert_allclose(actual, total / 6, rtol=1e-5)
