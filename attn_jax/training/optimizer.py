"""The optimiser: clipped Adam under a schedule of step sizes."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jaxtyping import Array

from attn_jax.config import Train
from attn_jax.errors import choose


def constant(step: Array, warmup_steps: int) -> Array:
    """The full step size."""
    return jnp.ones(())


def inverse_sqrt(step: Array, warmup_steps: int) -> Array:
    """Falls with the square root of the steps since warm-up. Vaswani et al. 2017, section 5.3."""
    return jnp.sqrt(max(warmup_steps, 1) / jnp.maximum(step, max(warmup_steps, 1)))


# None depends on the number of steps in all, so that a run may be made longer.
SCHEDULES: dict[str, Callable] = {"constant": constant, "inverse_sqrt": inverse_sqrt}


def make_schedule(config: Train) -> optax.Schedule:
    """From the number of steps done to the step size of the next: a linear warm-up, then decay.

    Raises:
      InputError: there is no such schedule.
    """
    decay = choose(SCHEDULES, config.schedule, "schedule")

    def step_size(count: Array) -> Array:
        warmup = jnp.minimum((count + 1) / max(config.warmup_steps, 1), 1.0)
        return config.learning_rate * warmup * decay(count + 1, config.warmup_steps)

    return step_size


def make_optimizer(config: Train) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) on gradients of bounded global norm."""
    adam = optax.adam(make_schedule(config))
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), adam)
