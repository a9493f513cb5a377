"""One training step, as a pure function."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from attn_jax.config import Train
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import PAD
from attn_jax.training.losses import coverage_loss, mean_loss
from attn_jax.training.optimizer import make_optimizer


class State(NamedTuple):
    """All that training carries from step to step."""

    step: Int[Array, ""]  # steps done
    model: Seq2Seq
    optimizer: optax.OptState


def start(model: Seq2Seq, config: Train) -> State:
    """The state before the first step."""
    return State(jnp.zeros((), jnp.int32), model, make_optimizer(config).init(model))


@partial(jax.jit, static_argnames="config", donate_argnames="state")
def train_step(
    state: State,
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    rng: Array,
    *,
    config: Train,
) -> tuple[State, Float[Array, ""]]:
    """One step down the gradient.

    Args:
      state: what the step before left; its memory is given up.
      source: source sentences.
      target: target sentences, each ended by `EOS`.
      rng: of the run; each step folds its own number into it, so that nothing random is carried.
      config: the loss and the optimiser.

    Returns:
      The next state, and the loss before the step in nats per target token.
    """

    def loss(model: Seq2Seq) -> Float[Array, ""]:
        features, alignment = model(source, target, jax.random.fold_in(rng, state.step))
        mask = target != PAD
        loss = mean_loss(features, model.words.logits, target, mask, config.label_smoothing)
        if config.coverage_loss:
            loss += config.coverage_loss * coverage_loss(alignment, mask)
        return loss

    value, gradient = jax.value_and_grad(loss)(state.model)
    updates, optimizer_state = make_optimizer(config).update(gradient, state.optimizer, state.model)
    model = optax.apply_updates(state.model, updates)
    return State(state.step + 1, model, optimizer_state), value
