"""The optimizer: an update rule for clipped gradients, with a schedule of step sizes."""

import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from attn_jax.settings.value import Value, setting


class Schedule(Value):
    """How the step size changes after warm-up.

    No schedule depends on the number of steps of the run, so that it can be extended.
    """

    def factor(self, step: Int[Array, ""], warmup_steps: int) -> Float[Array, ""]:
        """The factor of the step size at a step, counted from 1."""
        raise NotImplementedError


class Constant(Schedule):
    """The factor 1: the step size stays the same."""

    def factor(self, step: Int[Array, ""], warmup_steps: int) -> Float[Array, ""]:
        """1."""
        return jnp.ones(())


class InverseSqrt(Schedule):
    """Decays as 1 / √step, from 1 at the end of warm-up. Vaswani et al. 2017, section 5.3."""

    def factor(self, step: Int[Array, ""], warmup_steps: int) -> Float[Array, ""]:
        """√(warm-up / step)."""
        return jnp.sqrt(max(warmup_steps, 1) / jnp.maximum(step, max(warmup_steps, 1)))


class Halving(Schedule):
    """Halves after `after` steps, and every `every` steps from then on.

    Luong, Pham and Manning 2015, section 4.1, where `after` is 5 epochs and `every` is one.
    """

    after: int = setting(5000, low=0)
    every: int = setting(1000, low=1)

    def factor(self, step: Int[Array, ""], warmup_steps: int) -> Float[Array, ""]:
        """0.5 to the power of how often it has been halved."""
        return 0.5 ** jnp.maximum((step - 1 - self.after) // self.every + 1, 0)


class Linear(Schedule):
    """Falls along a straight line, to 0 after `until` steps."""

    until: int = setting(5000, low=1)

    def factor(self, step: Int[Array, ""], warmup_steps: int) -> Float[Array, ""]:
        """The share that is left of the steps after warm-up, the step itself among them."""
        return jnp.clip((self.until + 1 - step) / max(self.until - warmup_steps, 1), 0.0, 1.0)


class Optimizer(Value):
    """What turns gradients into updates, before these are multiplied by step sizes."""

    learning_rate: ClassVar[float] = 1.0  # the step size after warm-up if no other is given

    def rule(self) -> optax.GradientTransformation:
        """The rule, as Optax has it."""
        raise NotImplementedError


class Adam(Optimizer):
    """Kingma and Ba 2015. Vaswani et al. 2017, section 5.3, use beta2=0.98 and epsilon=1e-9."""

    learning_rate = 1e-3

    beta1: float = setting(0.9, low=0, below=1)
    beta2: float = setting(0.999, low=0, below=1)
    epsilon: float = setting(1e-8, above=0)

    def rule(self) -> optax.GradientTransformation:
        """Means of gradients and of their squares, corrected for their start from 0."""
        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon)


class Adadelta(Optimizer):
    """Zeiler 2012, with the constants of Bahdanau, Cho and Bengio 2014, appendix B.2.

    It determines its own step sizes, which a learning rate of 1 leaves unchanged.
    """

    rho: float = setting(0.95, low=0, below=1)
    epsilon: float = setting(1e-6, above=0)

    def rule(self) -> optax.GradientTransformation:
        """Means of the squares of gradients and of updates."""
        return optax.scale_by_adadelta(self.rho, self.epsilon)


class SGD(Optimizer):
    """Plain stochastic gradient descent."""

    def rule(self) -> optax.GradientTransformation:
        """Updates are gradients."""
        return optax.identity()


SCHEDULES: dict[str, type[Schedule]] = {
    one.name: one for one in (Constant, InverseSqrt, Halving, Linear)
}
OPTIMIZERS: dict[str, type[Optimizer]] = {one.name: one for one in (Adam, Adadelta, SGD)}


def clipped(norm: float) -> optax.GradientTransformation:
    """Clips gradients to a global norm. Pascanu, Mikolov and Bengio 2013, section 3.2.

    `optax.clip_by_global_norm` divides, for which XLA's CPU backend makes a separate pass over all
    parameters; multiplication by a factor is fused with the update rule.
    """

    def clip(gradient: optax.Updates, _: optax.Params | None) -> optax.Updates:
        factor = jnp.minimum(1, norm / optax.tree.norm(gradient))
        return jax.tree.map(lambda leaf: factor * leaf, gradient)

    return optax.stateless(clip)


def step_sizes(schedule: Schedule, highest: float, warmup_steps: int) -> optax.Schedule:
    """Maps the number of steps done to the next step size: warm-up to `highest`, times decay."""

    def step_size(count: ArrayLike) -> Array:
        step = jnp.asarray(count) + 1
        warmup = jnp.minimum(step / max(warmup_steps, 1), 1.0)
        return highest * warmup * schedule.factor(step, warmup_steps)

    return step_size


@functools.cache  # Optax's are equal only to themselves: one for the same options is compiled once
def make_optimizer(
    optimizer: Optimizer,
    schedule: Schedule,
    learning_rate: float,
    warmup_steps: int,
    clip_norm: float,
) -> optax.GradientTransformation:
    """The transformation of gradients into updates that options ask for.

    Args:
      optimizer: the update rule.
      schedule: how step sizes change after warm-up.
      learning_rate: the step size at the end of warm-up; 0: the optimizer's own.
      warmup_steps: over which step sizes rise from zero.
      clip_norm: the largest global norm of a gradient.
    """
    sizes = step_sizes(schedule, learning_rate or optimizer.learning_rate, warmup_steps)
    return optax.chain(clipped(clip_norm), optimizer.rule(), optax.scale_by_learning_rate(sizes))
