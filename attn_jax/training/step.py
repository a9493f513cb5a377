"""One training step, as a pure function."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from attn_jax.config import Train
from attn_jax.errors import InputError, choose
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import PAD
from attn_jax.training.devices import shared
from attn_jax.training.objective import loss_of
from attn_jax.training.optimizer import make_optimizer
from attn_jax.training.precision import PRECISIONS

# How many of what a gradient may be a mean over.
COUNTS: dict[str, Callable[[Int[Array, "B T"]], Int[Array, ""]]] = {
    "token": lambda target: (target != PAD).sum(),
    "sentence": lambda target: (target != PAD).any(axis=1).sum(),
}


class Parts(NamedTuple):
    """What training carries from step to step."""

    step: Int[Array, ""]  # steps done
    model: Seq2Seq
    optimizer: optax.OptState
    average: Seq2Seq | None  # of the model over the steps, where the options ask for it


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """The parts as the list of their leaves.

    A compiled function takes apart what it is called with and puts together what it returns. For a
    list that is nothing; for a Transformer and its optimiser it was 15 ms of Python a step, module
    by module.
    """

    leaves: list[Array]
    structure: jax.tree_util.PyTreeDef = field(metadata={"static": True})

    @classmethod
    def of(cls, parts: Parts) -> "State":
        """The state that has these parts."""
        return cls(*jax.tree.flatten(parts))

    @property
    def parts(self) -> Parts:
        """The parts, put together."""
        return jax.tree.unflatten(self.structure, self.leaves)

    @property
    def result(self) -> Seq2Seq:
        """The model to use: the average where there is one."""
        parts = self.parts
        return parts.model if parts.average is None else parts.average

    @property
    def rest(self) -> tuple:
        """What going on needs beside the result."""
        parts = self.parts
        return parts.optimizer, None if parts.average is None else parts.model


def start(model: Seq2Seq, config: Train) -> State:
    """The state before the first step."""
    average = jax.tree.map(jnp.copy, model) if config.average else None
    optimizer = make_optimizer(config).init(model)
    return State.of(Parts(jnp.zeros((), jnp.int32), model, optimizer, average))


def go_on(step: int, result: Seq2Seq, rest: tuple) -> State:
    """The state after so many steps, from its `result` and its `rest`."""
    optimizer, model = rest
    done = jnp.asarray(step, jnp.int32)
    if model is None:
        return State.of(Parts(done, result, optimizer, None))
    return State.of(Parts(done, model, optimizer, result))


@partial(jax.jit, static_argnames=("config", "mesh"), donate_argnames="state")
def train_step(
    state: State,
    source: Int[Array, "B S"],
    target: Int[Array, "B T"],
    rng: Array,
    links: Float[Array, "B T S"] | None = None,
    *,
    config: Train,
    mesh: jax.sharding.Mesh | None = None,
) -> tuple[State, Float[Array, ""]]:
    """One step down the gradient.

    Args:
      state: what the step before left; its memory is given up.
      source: source sentences.
      target: target sentences, each ended by `EOS`.
      rng: of the run; each step folds its own number into it, so that nothing random is carried.
      links: of the guided loss, where there is one.
      config: the loss and the optimiser.
      mesh: the devices that share the batch; without, one has it all.

    Returns:
      The next state, and the loss before the step in nats per target token.

    Raises:
      InputError: the batch cannot be cut into the parts that the options ask for.
    """
    step, model, optimizer, average = state.parts
    tokens = jnp.maximum((target != PAD).sum(), 1)
    count = jnp.maximum(choose(COUNTS, config.mean_over, "mean")(target), 1)

    def mean(model: Seq2Seq, rng: Array, part: tuple) -> Float[Array, ""]:
        with choose(PRECISIONS, config.compute, "precision")():
            return loss_of(config, model, *part, step, rng) / count

    gradient_of = partial(accumulated, jax.value_and_grad(mean), config.microbatches)
    if mesh is not None:
        gradient_of = shared(gradient_of, mesh)
    rng = jax.random.fold_in(rng, step)
    loss, gradient = gradient_of(model, rng, (source, target, links))
    updates, optimizer = make_optimizer(config).update(gradient, optimizer, model)
    model = optax.apply_updates(model, updates)
    done = step + 1
    if average is not None:
        # The first steps, far from where training leads, are forgotten faster.
        kept = jnp.minimum(config.average, (1 + done) / (10 + done))
        average = optax.incremental_update(model, average, 1 - kept)
    return State.of(Parts(done, model, optimizer, average)), loss * count / tokens


def accumulated(function, parts: int, model: Seq2Seq, rng: Array, batch: tuple) -> tuple:
    """The sum of a function's value and gradient over parts of a batch, one after the other.

    So the memory is that of a part, and the result that of the whole.
    """
    if parts == 1:
        return function(model, rng, batch)
    rows = len(batch[0])
    if rows % parts:
        raise InputError(f"--train.microbatches={parts} does not divide --train.batch_size={rows}")
    cut = jax.tree.map(lambda leaf: leaf.reshape(parts, rows // parts, *leaf.shape[1:]), batch)

    def add(sums: tuple, inputs: tuple) -> tuple:
        return jax.tree.map(jnp.add, sums, function(model, *inputs)), None

    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, model)
    sums, _ = jax.lax.scan(add, zeros, (jax.random.split(rng, parts), cut))
    return sums
