"""One training step, as a pure function."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from attn_jax.errors import InputError
from attn_jax.models.attention import after_training
from attn_jax.models.randomness import by_row
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.recipe.loss import Tokens, Unit
from attn_jax.recipe.precision import Float32, Precision
from attn_jax.tokens import PAD, Batch
from attn_jax.training.devices import data_parallel

# What is minimised: from a model, a batch, the number of steps done and a random key for each
# sentence to the sum of the losses of its tokens.
Loss = Callable[[Seq2Seq, Batch, Int[Array, ""], Key[Array, " B"]], Float[Array, ""]]


@dataclass(frozen=True)
class Recipe:
    """How a step trains. Equal recipes share a compiled program.

    A function, or a transformation of Optax, is equal to itself only: make one for all steps.

    Attributes:
      loss: what is minimised; its sum over a batch is divided by what `mean` counts.
      optimizer: any transformation of gradients into updates, such as `optax.adam(1e-3)`.
      average: decay of the moving average of the parameters, which is the result; 0: off.
      mean: what the loss is a mean over.
      microbatches: equal parts of a batch, computed one after the other.
      precision: of products.
    """

    loss: Loss
    optimizer: optax.GradientTransformation
    average: float = 0.0
    mean: Unit = field(default=Tokens())
    microbatches: int = 1
    precision: Precision = field(default=Float32())


class TrainState(NamedTuple):
    """What training carries from one step to the next."""

    step: Int[Array, ""]  # steps done
    model: Seq2Seq
    optimizer: optax.OptState
    average: Seq2Seq | None  # moving average of the model, if the options ask for it


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FlatState:
    """The parts as a flat list of leaves.

    A compiled function flattens its arguments and unflattens its results. For a list this costs
    nothing; for the modules of a Transformer and its optimizer it took 15 ms of Python per step.
    """

    leaves: list[Array]
    structure: Any = field(metadata={"static": True})

    @classmethod
    def of(cls, parts: TrainState) -> "FlatState":
        """The state that has these parts."""
        return cls(*jax.tree.flatten(parts))

    @property
    def parts(self) -> TrainState:
        """The parts, unflattened."""
        return jax.tree.unflatten(self.structure, self.leaves)

    @property
    def result(self) -> Seq2Seq:
        """The model to use: the moving average if there is one."""
        parts = self.parts
        return parts.model if parts.average is None else parts.average

    @property
    def rest(self) -> tuple:
        """What resuming needs besides the result."""
        parts = self.parts
        return parts.optimizer, None if parts.average is None else parts.model


def init_state(model: Seq2Seq, recipe: Recipe) -> FlatState:
    """The initial state, which holds the buffers of the model."""
    average = jax.tree.map(jnp.copy, model) if recipe.average else None
    optimizer = recipe.optimizer.init(_tree(model))
    return FlatState.of(TrainState(jnp.zeros((), jnp.int32), model, optimizer, average))


def with_optimizer(state: FlatState, recipe: Recipe) -> FlatState:
    """The state with the initial state of another optimizer."""
    parts = state.parts
    return FlatState.of(parts._replace(optimizer=recipe.optimizer.init(_tree(parts.model))))


def resume(step: int, result: Seq2Seq, rest: tuple) -> FlatState:
    """Rebuilds the state after `step` steps from its `result` and its `rest`."""
    optimizer, model = rest
    done = jnp.asarray(step, jnp.int32)
    if model is None:
        return FlatState.of(TrainState(done, result, optimizer, None))
    return FlatState.of(TrainState(done, model, optimizer, result))


@partial(jax.jit, static_argnames=("recipe", "mesh"), donate_argnames="state")
def train_step(
    state: FlatState,
    batch: Batch,
    rng: Key[Array, ""],
    *,
    recipe: Recipe,
    mesh: jax.sharding.Mesh | None = None,
) -> tuple[FlatState, Float[Array, ""]]:
    """One training step: the gradient of the loss, and an update by the optimizer.

    If the loss or the gradient is not finite, the step is skipped: only the step number changes.

    Args:
      state: the state after the previous step; its buffers are donated.
      batch: sentence pairs.
      rng: the key of the run; the step number is folded in, so that the state carries no key, and
        then each row's place in the batch, so that its parts may be computed anywhere.
      recipe: the loss, the optimizer and the rest that stays the same in all steps.
      mesh: the devices over which the batch is split; None for a single device.

    Returns:
      The next state, and the loss before the update in nats per target token; NaN if the step was
      skipped.

    Raises:
      InputError: `microbatches` does not divide the batch.
    """
    step, model, *_ = state.parts
    tokens = jnp.maximum((batch.target != PAD).sum(), 1)
    count = jnp.maximum(recipe.mean.count(batch.target), 1)

    def mean(model: Seq2Seq, part: tuple[Batch, Key[Array, " B"]]) -> Float[Array, ""]:
        batch, rng = part
        with recipe.precision.context():
            return recipe.loss(model, batch, step, rng) / count

    gradient_of = jax.value_and_grad(mean)
    if recipe.microbatches > 1:
        gradient_of = partial(accumulated, gradient_of, recipe.microbatches)
    if mesh is not None:
        gradient_of = data_parallel(gradient_of, mesh)
    rng = by_row(jax.random.fold_in(rng, step), len(batch.target))
    loss, gradient = gradient_of(model, (batch, rng))
    finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
    # A choice between the leaves of both states would need memory for both.
    following = jax.lax.cond(
        finite,
        lambda parts: updated(recipe, parts, gradient),
        lambda parts: parts._replace(step=parts.step + 1),
        state.parts,
    )
    return FlatState.of(following), jnp.where(finite, loss * count / tokens, jnp.nan)


def _tree(model: Seq2Seq) -> PyTree:
    """A model as Optax takes it, whose types know no modules among pytrees."""
    return model


def updated(recipe: Recipe, state: TrainState, gradient: PyTree) -> TrainState:
    """The next state, after an update by the optimizer."""
    step, model, optimizer, average = state
    updates, optimizer = recipe.optimizer.update(gradient, optimizer, _tree(model))
    done = step + 1
    model = after_training(optax.apply_updates(_tree(model), updates), done)
    if average is not None:
        # A smaller decay at the beginning forgets the first parameters faster.
        kept = jnp.minimum(recipe.average, (1 + done) / (10 + done))
        moved = optax.incremental_update(model, _tree(average), 1 - kept)
        average = after_training(moved, done)
    return TrainState(done, model, optimizer, average)


def accumulated(function, parts: int, model: Seq2Seq, batch: tuple) -> tuple:
    """Sums a function's value and gradient over parts of a batch, computed one after the other.

    This needs the memory of one part, and gives the result of the whole batch.

    Raises:
      InputError: the batch cannot be cut into `parts` equal parts.
    """
    rows = len(jax.tree.leaves(batch)[0])
    if rows % parts:
        raise InputError(f"train.microbatches={parts} does not divide train.batch_size={rows}")
    cut = jax.tree.map(lambda leaf: leaf.reshape(parts, rows // parts, *leaf.shape[1:]), batch)

    def add(sums: tuple, part: tuple) -> tuple:
        return jax.tree.map(jnp.add, sums, function(model, part)), None

    zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, model)
    sums, _ = jax.lax.scan(add, zeros, cut)
    return sums
