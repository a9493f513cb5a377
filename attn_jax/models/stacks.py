"""Stacks of recurrent layers, and the states in which those of a decoder begin."""

import functools
import operator

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key, PyTree

from attn_jax.config import Model
from attn_jax.errors import InputError, choose
from attn_jax.kernels.forms import FAST
from attn_jax.models import dropout
from attn_jax.models.dropout import make_dropout
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Summary
from attn_jax.models.randomness import split
from attn_jax.models.recurrent import CELLS, LSTM
from attn_jax.settings.grammar import choose_or_import

OPTIONS = dropout.OPTIONS | {"cell", "stack"}  # that are used here


class Stack(nnx.Module):
    """One or several recurrent cells, each of which reads the output of the one below.

    The state is a tuple of the states of the cells, all of which start from the same vector.

    Args:
      config: the kind of cell, and the dropout.
      features: of the inputs.
      units: H, of each cell.
      layers: the number of cells.

    Raises:
      InputError: the cell does not exist, or is not a cell.
    """

    forms = FAST
    residual = False  # whether the layers above the first add their inputs to their outputs

    def __init__(self, config: Model, features: int, units: int, layers: int, *, rngs: nnx.Rngs):
        cell = choose_or_import(CELLS, config.cell, "cell")
        if not hasattr(cell, "gates"):
            raise InputError(f"model.cell={config.cell} is not a cell: it has no `gates`")
        sizes = [features] + [units] * (layers - 1)
        self.cells = nnx.List([cell(size, units, rngs=rngs) for size in sizes])
        self.dropout = make_dropout(config)
        self.gates, self.units = cell.gates, units

    def input(self, inputs: Float[Array, "*any E"]) -> Float[Array, "*any G"]:
        """The inputs, projected for the lowest cell."""
        return self.cells[0].input(inputs)

    def begin(self, hidden: Float[Array, "B H"]) -> tuple:
        """The state in which the output of each cell is `hidden`."""
        return tuple(cell.begin(hidden) for cell in self.cells)

    def shown(self, state: tuple, layer: int) -> Float[Array, "B H"]:
        """The output of a layer, which the next layer reads."""
        return self.cells[layer].output(state[layer])

    def output(self, state: tuple) -> Float[Array, "B H"]:
        """The output of the highest layer."""
        return self.shown(state, len(self.cells) - 1)

    def __call__(
        self, state: tuple, projected: Float[Array, "B G"], rng: Key[Array, " B"] | None = None
    ) -> tuple:
        """The next state, from the inputs projected by `input`."""
        following: tuple = ()
        rngs = split(rng, len(self.cells))
        for layer, (cell, rng_cell) in enumerate(zip(self.cells, rngs, strict=True)):
            rng_recurrent, rng_between = split(rng_cell, 2)
            if layer:
                below = self.dropout(self.shown(following, layer - 1), rng_between)
                projected = cell.input(below)
            hidden = self.dropout.recurrent(cell.output(state[layer]), rng_recurrent)
            following += (cell(state[layer], projected, hidden),)
        return following

    def unroll(
        self,
        inputs: Float[Array, "B T E"],
        mask: Bool[Array, "B T"],
        initial: PyTree[Float[Array, "B H"]],
        rng: Key[Array, " B"] | None = None,
        *,
        reverse: bool = False,
    ) -> tuple[PyTree[Float[Array, "B H"]], Float[Array, "B T H"]]:
        """The last state and the outputs of the cells over whole sentences.

        A step where the mask is False keeps the previous state. With padding on the right, the last
        state is therefore that of the last word when reading forwards, and when reading backwards,
        the initial state reaches the last word unchanged. `rng` turns on dropout.
        """
        # Transposed before the projection, which usually makes them larger.
        projected, mask = self.input(jnp.swapaxes(inputs, 0, 1)), jnp.swapaxes(mask, 0, 1)
        rngs = self.dropout.steps(rng, len(projected), len(self.cells))
        # Not for classes derived from LSTM, which may compute something else.
        if rngs is None and [type(cell) for cell in self.cells] == [LSTM]:
            matrix = self.cells[0].recurrent.kernel[...]
            last, outputs = self.forms.lstm_layer(matrix, projected, mask, *initial, reverse)
            return (last,), jnp.swapaxes(outputs, 0, 1)
        last, outputs = self.forms.scan(
            _masked, (self,), initial, (projected, mask, rngs), reverse=reverse
        )
        return last, jnp.swapaxes(outputs, 0, 1)


def _masked(stack: Stack, state: tuple, inputs: tuple) -> tuple[tuple, Float[Array, "B H"]]:
    """One step, which keeps the previous state where the mask is False."""
    projected, real, rng = inputs
    moved = stack(state, projected, rng)
    state = jax.tree.map(lambda new, old: jnp.where(real[:, None], new, old), moved, state)
    return state, stack.output(state)


class ResidualStack(Stack):
    """A stack with residual connections: each cell adds its output to the sum of those below.

    Wu et al. 2016, section 3.1.
    """

    residual = True

    def shown(self, state: tuple, layer: int) -> Float[Array, "B H"]:
        """The sum of the outputs of the cells up to and including a layer."""
        outputs = (self.cells[below].output(state[below]) for below in range(layer + 1))
        return functools.reduce(operator.add, outputs)


STACKS: dict[str, type[Stack]] = {"plain": Stack, "residual": ResidualStack}


def make_stack(config: Model, features: int, units: int, layers: int, *, rngs: nnx.Rngs) -> Stack:
    """The stack of cells selected by the options."""
    return choose(STACKS, config.stack, "stack")(config, features, units, layers, rngs=rngs)


class Bridge(nnx.Module):
    """s_0 = tanh(W_s · summary + b), the same in each layer.

    Bahdanau, Cho and Bengio 2014, appendix A.2.2 (which omits biases).
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.linear = Linear(summary_size, config.hidden_size, rngs=rngs)

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return stack.begin(jnp.tanh(self.linear(summary.vector)))


class Last(nnx.Module):
    """The last state of each layer of the encoder. Sutskever, Vinyals and Le 2014; Luong 2015.

    Raises:
      InputError: the encoder is not `unidirectional` or `backward`, or differs from the decoder in
        the number of its layers or units.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        encoder = config.encoder_layers, config.annotation_size
        decoder = config.decoder_layers, config.hidden_size
        if config.encoder not in ("unidirectional", "backward") or encoder != decoder:
            raise InputError(
                "model.first_state=last needs a unidirectional or backward encoder with as many "
                "layers and units as the decoder"
            )

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return summary.states


class Zero(nnx.Module):
    """All zeros: the decoder sees the source only through attention."""

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.units = config.hidden_size

    def __call__(self, summary: Summary, stack: Stack) -> tuple:
        """The initial state of a stack."""
        return stack.begin(jnp.zeros((len(summary.vector), self.units), summary.vector.dtype))


FirstState = Bridge | Last | Zero
FIRST_STATES: dict[str, type[FirstState]] = {"bridge": Bridge, "last": Last, "zero": Zero}


def make_first_state(config: Model, summary_size: int, *, rngs: nnx.Rngs) -> FirstState:
    """The initial state selected by the options."""
    return choose(FIRST_STATES, config.first_state, "first state")(config, summary_size, rngs=rngs)
