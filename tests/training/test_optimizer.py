"""Schedules and update rules, by hand and from the papers' equations in float64."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from attn_jax.errors import InputError
from attn_jax.recipe import optimizer
from attn_jax.training.loop import recipe_of
from tests.options import train_options


def step_sizes(config, steps):
    sizes = optimizer.step_sizes(config.schedule, config.learning_rate, config.warmup_steps)
    return [sizes(jnp.asarray(step)) for step in range(steps)]


def test_warm_up_then_constant():
    sizes = step_sizes(train_options(learning_rate=0.5, warmup_steps=4), 6)
    np.testing.assert_allclose(sizes, [0.125, 0.25, 0.375, 0.5, 0.5, 0.5], rtol=1e-6)


def test_warm_up_then_inverse_square_root():
    sizes = step_sizes(
        train_options(learning_rate=0.5, warmup_steps=4, schedule="inverse_sqrt"), 16
    )
    np.testing.assert_allclose(sizes[3], 0.5, rtol=1e-5)
    np.testing.assert_allclose(sizes[15], 0.25, rtol=1e-5)


def test_an_unknown_schedule():
    with pytest.raises(InputError, match="allowed: constant, inverse_sqrt"):
        train_options(schedule="cosine")


def test_long_gradients_are_cut_to_the_norm():
    """Adam ignores the length of a constant gradient, but not how it changes."""
    config = train_options(learning_rate=1.0, warmup_steps=0, clip_norm=1.0)
    clipping = recipe_of(config).optimizer
    state = clipping.init(jnp.zeros(2))
    for gradient in ([3.0, 4.0], [0.3, 0.4]):
        update, state = clipping.update(jnp.array(gradient), state)
    first, second = 0.6, 0.3  # clipped, and unchanged
    mean = (0.9 * 0.1 * first + 0.1 * second) / (1 - 0.9**2)
    square = (0.999 * 0.001 * first**2 + 0.001 * second**2) / (1 - 0.999**2)
    # float32 keeps five digits of 1 - 0.999².
    np.testing.assert_allclose(update[0], -mean / np.sqrt(square), rtol=1e-4)


def test_the_schedule_of_the_transformer():
    """d^-0.5 min(step^-0.5, step warmup^-1.5): Vaswani et al. 2017, equation 3."""
    peak = 512**-0.5 * 10**-0.5
    config = train_options(learning_rate=peak, warmup_steps=10, schedule="inverse_sqrt")
    expected = [512**-0.5 * min(step**-0.5, step * 10**-1.5) for step in range(1, 40)]
    np.testing.assert_allclose(step_sizes(config, 39), expected, rtol=1e-5)


def test_the_schedule_of_luong():
    """Five epochs of three steps at the full size, then half of it, a quarter and so on."""
    config = train_options(learning_rate=1.0, warmup_steps=0, schedule="halving(after=15,every=3)")
    expected = [1.0] * 15 + [0.5] * 3 + [0.25] * 3 + [0.125] * 3
    np.testing.assert_allclose(step_sizes(config, 24), expected, rtol=1e-6)


def test_down_a_line_as_optax_has_it():
    config = train_options(learning_rate=0.5, warmup_steps=4, schedule="linear(until=12)")
    falls = optax.linear_schedule(0.5, 0.0, transition_steps=12 - 4)
    expected = [0.125, 0.25, 0.375, 0.5, *map(falls, range(8 + 2))]
    np.testing.assert_allclose(step_sizes(config, 14), expected, atol=1e-7)
    assert expected[-2:] == [0, 0]


def rule(name, gradients, **options):
    """The updates that a rule computes from the gradients of one parameter."""
    config = train_options(optimizer=name, warmup_steps=0, clip_norm=1e9, **options)
    rule = recipe_of(config).optimizer
    state, updates = rule.init(jnp.zeros(1)), []
    for gradient in gradients:
        update, state = rule.update(jnp.array([gradient]), state, jnp.zeros(1))
        updates.append(float(update[0]))
    return updates


GRADIENTS = [0.3, -0.2, 0.5, 0.1]


@pytest.mark.parametrize("settings", [(0.95, 1e-6), (0.9, 1e-3)])
def test_adadelta_equals_its_algorithm(settings):
    rho, epsilon = settings
    square = moved = 0.0
    expected = []
    for gradient in GRADIENTS:  # Zeiler 2012, algorithm 1
        square = rho * square + (1 - rho) * gradient**2
        step = -np.sqrt(moved + epsilon) / np.sqrt(square + epsilon) * gradient
        moved = rho * moved + (1 - rho) * step**2
        expected.append(step)
    name = "adadelta" if settings == (0.95, 1e-6) else f"adadelta(rho={rho},epsilon={epsilon})"
    np.testing.assert_allclose(rule(name, GRADIENTS, learning_rate=1.0), expected, rtol=1e-5)


def test_adam_equals_its_algorithm_with_the_settings_of_the_transformer():
    first = second = 0.0
    expected = []
    for step, gradient in enumerate(GRADIENTS, start=1):  # Kingma and Ba 2015, algorithm 1
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        mean, square = first / (1 - 0.9**step), second / (1 - 0.98**step)
        expected.append(-0.01 * mean / (np.sqrt(square) + 1e-9))
    actual = rule("adam(beta2=0.98,epsilon=1e-9)", GRADIENTS, learning_rate=0.01)
    np.testing.assert_allclose(actual, expected, rtol=1e-4)  # 1 - 0.98² in float32


@pytest.mark.parametrize(("name", "rate"), [("adam", 1e-3), ("adadelta", 1.0), ("sgd", 1.0)])
def test_each_rule_has_a_step_size_of_its_own(name, rate):
    assert rule(name, GRADIENTS) == rule(name, GRADIENTS, learning_rate=rate)


@pytest.mark.parametrize(("setting", "least"), [("every", 1), ("after", 0)])
def test_halving_is_of_steps(setting, least):
    message = f"{setting} must be at least {least}, got {least - 1}"
    with pytest.raises(InputError, match=message):
        step_sizes(train_options(schedule=f"halving({setting}={least - 1})"), 1)


def test_sgd_goes_down_the_gradient():
    actual = rule("sgd", GRADIENTS, learning_rate=0.5)
    np.testing.assert_allclose(actual, [-0.5 * gradient for gradient in GRADIENTS], rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adma"}, r"unknown optimizer 'adma' \(did you mean adam\?\)"),
        ({"optimizer": "sgd(momentum=0.9)"}, "sgd has no settings, got 'momentum'"),
        ({"optimizer": "adam(beta=0.9)"}, "unknown setting of adam 'beta'"),
        ({"optimizer": "adam(beta1=2)"}, "beta1 must be at least 0 and less than 1, got 2"),
        ({"optimizer": "adadelta(epsilon=0)"}, "adadelta: epsilon must be more than 0"),
        ({"schedule": "halving(every=2.5)"}, "every must be of type int, got 2.5"),
        ({"schedule": "halving(after=1e999)"}, "after must be of type int, got inf"),
        ({"schedule": "halving(after=1.5.2)"}, "malformed schedule"),
    ],
)
def test_refuses_what_does_not_exist(options, message):
    with pytest.raises(InputError, match=message):
        train_options(**options)
