"""The optimiser: clipped Adam under a schedule of step sizes."""

from collections.abc import Callable

import jax.numpy as jnp
import optax

from attn_jax.config import Train
from attn_jax.errors import choose


def constant(step: int, warmup_steps: int) -> float:
    """The full step size."""
    return 1.0


def inverse_sqrt(step: int, warmup_steps: int) -> float:
    """Falls with the square root of the steps since warm-up. Vaswani et al. 2017, section 5.3."""
    return jnp.sqrt(max(warmup_steps, 1) / jnp.maximum(step, max(warmup_steps, 1)))


# None depends on the number of steps in all, so that a run may be made longer.
SCHEDULES: dict[str, Callable] = {"constant": constant, "inverse_sqrt": inverse_sqrt}


def make_optimizer(config: Train) -> optax.GradientTransformation:
    """Adam (Kingma and Ba 2015) with a linear warm-up, on gradients of bounded global norm."""
    decay = choose(SCHEDULES, config.schedule, "schedule")

    def step_size(count):
        warmup = jnp.minimum((count + 1) / max(config.warmup_steps, 1), 1.0)
        return config.learning_rate * warmup * decay(count + 1, config.warmup_steps)

    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(step_size))
