"""The optimiser: an update rule for clipped gradients, with a schedule of step sizes."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.names import choose_with_settings


def constant(step: Array, warmup_steps: int) -> Array:
    """The factor 1: the step size stays the same."""
    return jnp.ones(())


def inverse_sqrt(step: Array, warmup_steps: int) -> Array:
    """Decays as 1 / √step, from 1 at the end of warm-up. Vaswani et al. 2017, section 5.3."""
    return jnp.sqrt(max(warmup_steps, 1) / jnp.maximum(step, max(warmup_steps, 1)))


def halving(step: Array, warmup_steps: int, *, after: int = 5000, every: int = 1000) -> Array:
    """Halves after `after` steps, and every `every` steps from then on.

    Luong, Pham and Manning 2015, section 4.1, where `after` is 5 epochs and `every` is one.

    Raises:
      InputError: `after` is less than 0, or `every` less than 1.
    """
    for name, value, least in (("after", after, 0), ("every", every, 1)):
        if value < least:
            raise InputError(f"halving: {name} must be at least {least}, got {value}")
    return 0.5 ** jnp.maximum((step - 1 - after) // every + 1, 0)


# Each maps a step, counted from 1, and the number of warm-up steps to a factor of the step size.
# None depends on the total number of steps, so that a run can be extended.
SCHEDULES: dict[str, Callable] = {
    "constant": constant,
    "inverse_sqrt": inverse_sqrt,
    "halving": halving,
}


def adam(
    step_size: optax.Schedule, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
) -> optax.GradientTransformation:
    """Kingma and Ba 2015. Vaswani et al. 2017, section 5.3, use beta2=0.98 and epsilon=1e-9."""
    _check("adam", epsilon, beta1=beta1, beta2=beta2)
    return optax.adam(step_size, b1=beta1, b2=beta2, eps=epsilon)


def adadelta(
    step_size: optax.Schedule, *, rho: float = 0.95, epsilon: float = 1e-6
) -> optax.GradientTransformation:
    """Zeiler 2012, with the constants of Bahdanau, Cho and Bengio 2014, appendix B.2.

    It determines its own step sizes, which a learning rate of 1 leaves unchanged.
    """
    _check("adadelta", epsilon, rho=rho)
    return optax.adadelta(step_size, rho=rho, eps=epsilon)


def sgd(step_size: optax.Schedule) -> optax.GradientTransformation:
    """Plain stochastic gradient descent."""
    return optax.sgd(step_size)


OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adam": adam,
    "adadelta": adadelta,
    "sgd": sgd,
}
LEARNING_RATES = {adam: 1e-3, adadelta: 1.0, sgd: 1.0}  # defaults


def _check(name: str, epsilon: float, **decays: float) -> None:
    for setting, value in decays.items():
        if not 0 <= value < 1:
            raise InputError(f"{name}: {setting} must be at least 0 and less than 1, got {value}")
    if epsilon <= 0:
        raise InputError(f"{name}: epsilon must be more than 0, got {epsilon}")


def clipped(norm: float) -> optax.GradientTransformation:
    """Clips gradients to a global norm. Pascanu, Mikolov and Bengio 2013, section 3.2.

    `optax.clip_by_global_norm` divides, for which XLA's CPU backend makes a separate pass over all
    parameters; multiplication by a factor is fused with the update rule.
    """

    def clip(gradient: optax.Updates, _: optax.Params | None) -> optax.Updates:
        factor = jnp.minimum(1, norm / optax.tree.norm(gradient))
        return jax.tree.map(lambda own: factor * own, gradient)

    return optax.stateless(clip)


def make_schedule(config: Train) -> optax.Schedule:
    """Maps the number of steps done to the next step size: linear warm-up times decay.

    Raises:
      InputError: there is no such schedule or optimiser.
    """
    decay = choose_with_settings(SCHEDULES, config.schedule, "schedule")
    rule = choose_with_settings(OPTIMIZERS, config.optimizer, "optimizer")
    highest = config.learning_rate or LEARNING_RATES[rule.func]

    def step_size(count: Array) -> Array:
        warmup = jnp.minimum((count + 1) / max(config.warmup_steps, 1), 1.0)
        return highest * warmup * decay(count + 1, config.warmup_steps)

    return step_size


def make_optimizer(config: Train) -> optax.GradientTransformation:
    """The optimiser that the options ask for, with gradients clipped by global norm.

    Raises:
      InputError: there is no such optimiser or schedule.
    """
    rule = choose_with_settings(OPTIMIZERS, config.optimizer, "optimizer")
    return optax.chain(clipped(config.clip_norm), rule(make_schedule(config)))
