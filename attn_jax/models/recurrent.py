"""Recurrent cells, and the scan that runs one over a batch of padded sentences.

A cell has two halves: `input`, which is applied to the inputs of all steps at once, outside the
scan, and the call, which must wait for the previous state. `begin` makes a state from a vector, and
`output` reads a state. `hidden` is what the recurrent product sees of the state: its output, less
what dropout removes.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.models.activations import keeping_values, sigmoid, tanh
from attn_jax.models.deferral import scan
from attn_jax.models.linear import Linear


def orthogonal_gates(rng: Array, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """One orthogonal square matrix for each gate, side by side."""
    units, width = shape
    orthogonal = jax.nn.initializers.orthogonal()
    rngs = jax.random.split(rng, width // units)
    return jnp.concatenate([orthogonal(rng, (units, units), dtype) for rng in rngs], axis=1)


class GRU(nnx.Module):
    """Gated recurrent unit whose reset gate acts after the recurrent product.

    r, z = σ(W x + U h),  n = tanh(W x + r ∘ U h),  h' = (1 - z) ∘ n + z ∘ h

    Cho et al. 2014 reset before the product; this later form (as in cuDNN) makes the three
    products one.
    """

    gates = 3

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        self.input = Linear(features, 3 * units, rngs=rngs)
        self.recurrent = Linear(units, 3 * units, kernel_init=orthogonal_gates, rngs=rngs)

    def begin(self, hidden: Float[Array, "B H"]) -> Float[Array, "B H"]:
        """The state whose output is `hidden`."""
        return hidden

    def output(self, state: Float[Array, "B H"]) -> Float[Array, "B H"]:
        """What a state shows."""
        return state

    def __call__(
        self,
        state: Float[Array, "B H"],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs as `input` projected them (G = 3 H)."""
        # Cut here, so that of the product a derivative keeps nothing but h_n.
        return self._gated(state, projected, *jnp.split(self.recurrent(hidden), 3, axis=-1))

    @staticmethod
    @keeping_values
    def _gated(state: Array, projected: Array, h_r: Array, h_z: Array, h_n: Array) -> Array:
        x_r, x_z, x_n = jnp.split(projected, 3, axis=-1)
        reset, update = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
        return (1 - update) * tanh(x_n + reset * h_n) + update * state


class LSTM(nnx.Module):
    """Long short-term memory with a forget gate.

    i, f, o = σ(W x + U h),  g = tanh(W x + U h),  c' = f ∘ c + i ∘ g,  h' = o ∘ tanh(c')

    Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000. The forget gate begins with
    a bias of 1 (Jozefowicz, Zaremba and Sutskever 2015).
    """

    gates = 4

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        def remember(rng: Array, shape: tuple[int], dtype: DTypeLike) -> Array:
            return jnp.zeros(shape, dtype).at[units : 2 * units].set(1)

        self.input = Linear(features, 4 * units, bias_init=remember, rngs=rngs)
        self.recurrent = Linear(
            units, 4 * units, use_bias=False, kernel_init=orthogonal_gates, rngs=rngs
        )

    def begin(self, hidden: Float[Array, "B H"]) -> tuple[Float[Array, "B H"], Float[Array, "B H"]]:
        """The state whose output is `hidden` and whose memory is empty."""
        return hidden, jnp.zeros_like(hidden)

    def output(self, state: tuple[Float[Array, "B H"], Float[Array, "B H"]]) -> Float[Array, "B H"]:
        """What a state shows: h."""
        return state[0]

    def __call__(
        self,
        state: tuple[Float[Array, "B H"], Float[Array, "B H"]],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> tuple[Float[Array, "B H"], Float[Array, "B H"]]:
        """The next state, from the inputs as `input` projected them (G = 4 H)."""
        _, memory = state
        return self._gated(memory, projected + self.recurrent(hidden))

    @staticmethod
    @keeping_values
    def _gated(memory: Array, gates: Array) -> tuple[Array, Array]:
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        memory = sigmoid(f) * memory + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(memory), memory


class Tanh(nnx.Module):
    """The simple recurrent unit h' = tanh(W x + U h). Elman 1990."""

    gates = 1

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        self.input = Linear(features, units, rngs=rngs)
        self.recurrent = Linear(
            units, units, use_bias=False, kernel_init=orthogonal_gates, rngs=rngs
        )

    def begin(self, hidden: Float[Array, "B H"]) -> Float[Array, "B H"]:
        """The state whose output is `hidden`."""
        return hidden

    def output(self, state: Float[Array, "B H"]) -> Float[Array, "B H"]:
        """What a state shows."""
        return state

    def __call__(
        self,
        state: Float[Array, "B H"],
        projected: Float[Array, "B H"],
        hidden: Float[Array, "B H"],
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs as `input` projected them."""
        return tanh(projected + self.recurrent(hidden))


class GRUResetFirst(GRU):
    """Gated recurrent unit as in the papers, whose reset gate acts before the recurrent product.

    r, z = σ(W x + U h),  n = tanh(W x + U (r ∘ h)),  h' = (1 - z) ∘ h + z ∘ n

    Cho et al. 2014, section 2.3, and Bahdanau, Cho and Bengio 2014, appendix A.1.1, who have z the
    other way round and are followed.
    """

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        self.input = Linear(features, 3 * units, rngs=rngs)

        def recurrent(gates: int) -> Linear:
            return Linear(
                units, gates * units, use_bias=False, kernel_init=orthogonal_gates, rngs=rngs
            )

        self.recurrent, self.candidate = recurrent(2), recurrent(1)

    def __call__(
        self,
        state: Float[Array, "B H"],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs as `input` projected them (G = 3 H)."""
        x_r, x_z, x_n = jnp.split(projected, 3, axis=-1)
        h_r, h_z = jnp.split(self.recurrent(hidden), 2, axis=-1)
        reset, update = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
        return (1 - update) * state + update * tanh(x_n + self.candidate(reset * hidden))


CELLS: dict[str, type[nnx.Module]] = {
    "gru": GRU,
    "gru_reset_first": GRUResetFirst,
    "lstm": LSTM,
    "tanh": Tanh,
}


def unroll(
    stack: nnx.Module,
    inputs: Float[Array, "B T E"],
    mask: Bool[Array, "B T"],
    initial: PyTree[Float[Array, "B H"]],
    rng: Array | None = None,
    *,
    reverse: bool = False,
) -> tuple[PyTree[Float[Array, "B H"]], Float[Array, "B T H"]]:
    """The last state of a stack of cells over whole sentences, and what its states show.

    A masked step keeps the state. So padding on the right leaves the last state where it was when
    reading forwards, and is passed in the initial state when reading backwards. `rng` turns dropout
    on.
    """

    def step(stack, state, inputs):
        projected, real, rng = inputs
        moved = stack(state, projected, rng)
        state = jax.tree.map(lambda new, old: jnp.where(real[:, None], new, old), moved, state)
        return state, stack.output(state)

    # Transposed before they are projected: there is less of them.
    projected = stack.input(jnp.swapaxes(inputs, 0, 1))
    rngs = stack.dropout.steps(rng, len(projected))
    steps = projected, jnp.swapaxes(mask, 0, 1), rngs
    last, outputs = scan(step, stack, initial, steps, reverse=reverse)
    return last, jnp.swapaxes(outputs, 0, 1)
