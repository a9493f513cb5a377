"""The optimiser: an update rule for clipped gradients, with a schedule of step sizes."""

from collections.abc import Callable
from typing import NamedTuple

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


class Rule(NamedTuple):
    """What turns gradients into updates, before these are multiplied by step sizes."""

    update: optax.GradientTransformation
    learning_rate: float  # the default


def adam(*, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Rule:
    """Kingma and Ba 2015. Vaswani et al. 2017, section 5.3, use beta2=0.98 and epsilon=1e-9."""
    _check("adam", epsilon, beta1=beta1, beta2=beta2)
    return Rule(optax.scale_by_adam(beta1, beta2, epsilon), 1e-3)


def adadelta(*, rho: float = 0.95, epsilon: float = 1e-6) -> Rule:
    """Zeiler 2012, with the constants of Bahdanau, Cho and Bengio 2014, appendix B.2.

    It determines its own step sizes, which a learning rate of 1 leaves unchanged.
    """
    _check("adadelta", epsilon, rho=rho)
    return Rule(optax.scale_by_adadelta(rho, epsilon), 1.0)


def sgd() -> Rule:
    """Plain stochastic gradient descent."""
    return Rule(optax.identity(), 1.0)


OPTIMIZERS: dict[str, Callable[..., Rule]] = {"adam": adam, "adadelta": adadelta, "sgd": sgd}


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
        return jax.tree.map(lambda leaf: factor * leaf, gradient)

    return optax.stateless(clip)


def make_schedule(config: Train, highest: float) -> optax.Schedule:
    """Maps the number of steps done to the next step size: warm-up to `highest`, times decay.

    Raises:
      InputError: there is no such schedule.
    """
    decay = choose_with_settings(SCHEDULES, config.schedule, "schedule")

    def step_size(count: Array) -> Array:
        warmup = jnp.minimum((count + 1) / max(config.warmup_steps, 1), 1.0)
        return highest * warmup * decay(count + 1, config.warmup_steps)

    return step_size


def make_optimizer(config: Train) -> optax.GradientTransformation:
    """The optimiser that the options ask for, with gradients clipped by global norm.

    Raises:
      InputError: there is no such optimiser or schedule.
    """
    rule = choose_with_settings(OPTIMIZERS, config.optimizer, "optimizer")()
    schedule = make_schedule(config, config.learning_rate or rule.learning_rate)
    return optax.chain(
        clipped(config.clip_norm), rule.update, optax.scale_by_learning_rate(schedule)
    )
