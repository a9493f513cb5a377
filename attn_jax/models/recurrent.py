"""Recurrent cells, as `protocols.Cell` describes them. Formulas omit biases."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from attn_jax.kernels.forms import FAST
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Cell


def orthogonal_gates(rng: Array, shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """An orthogonal square matrix for each gate, concatenated."""
    units, width = shape
    orthogonal = jax.nn.initializers.orthogonal()
    rngs = jax.random.split(rng, width // units)
    return jnp.concatenate([orthogonal(rng, (units, units), dtype) for rng in rngs], axis=1)


class Tanh(nnx.Module):
    """The simple recurrent unit h' = tanh(W x + U h). Elman 1990."""

    forms = FAST
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
        """The output of a state."""
        return state

    def __call__(
        self,
        state: Float[Array, "B H"],
        projected: Float[Array, "B H"],
        hidden: Float[Array, "B H"],
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs projected by `input`."""
        return self.forms.tanh(projected + self.recurrent(hidden))


class GRU(Tanh):
    """Gated recurrent unit whose reset gate acts after the recurrent product.

    r, z = σ(W x + U h),  n = tanh(W x + r ∘ U h),  h' = (1 - z) ∘ n + z ∘ h

    Cho et al. 2014 reset before the product; in this later form (as in cuDNN) the three recurrent
    products are computed as one.
    """

    gates = 3

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        self.input = Linear(features, 3 * units, rngs=rngs)
        self.recurrent = Linear(units, 3 * units, kernel_init=orthogonal_gates, rngs=rngs)

    def __call__(
        self,
        state: Float[Array, "B H"],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs projected by `input` (G = 3 H)."""
        # Split here, so that h_n is all of the product that is stored for the derivative.
        products = jnp.split(self.recurrent(hidden), 3, axis=-1)
        sigmoid, tanh = self.forms.sigmoid, self.forms.tanh

        @self.forms.keeping_values
        def gated(state: Array, projected: Array, h_r: Array, h_z: Array, h_n: Array) -> Array:
            x_r, x_z, x_n = jnp.split(projected, 3, axis=-1)
            reset, update = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
            return (1 - update) * tanh(x_n + reset * h_n) + update * state

        return gated(state, projected, *products)


class LSTM(nnx.Module):
    """Long short-term memory with a forget gate.

    i, f, o = σ(W x + U h),  g = tanh(W x + U h),  c' = f ∘ c + i ∘ g,  h' = o ∘ tanh(c')

    Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000. The bias of the forget gate
    is initially 1 (Jozefowicz, Zaremba and Sutskever 2015).
    """

    forms = FAST
    gates = 4

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        def remember(rng: Array, shape: tuple[int], dtype: DTypeLike) -> Array:
            return jnp.zeros(shape, dtype).at[units : 2 * units].set(1)

        self.input = Linear(features, 4 * units, bias_init=remember, rngs=rngs)
        self.recurrent = Linear(
            units, 4 * units, use_bias=False, kernel_init=orthogonal_gates, rngs=rngs
        )

    def begin(self, hidden: Float[Array, "B H"]) -> tuple[Float[Array, "B H"], Float[Array, "B H"]]:
        """The state whose output is `hidden` and whose memory cell is zero."""
        return hidden, jnp.zeros_like(hidden)

    def output(self, state: tuple[Float[Array, "B H"], Float[Array, "B H"]]) -> Float[Array, "B H"]:
        """The output of a state: h."""
        return state[0]

    def __call__(
        self,
        state: tuple[Float[Array, "B H"], Float[Array, "B H"]],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> tuple[Float[Array, "B H"], Float[Array, "B H"]]:
        """The next state, from the inputs projected by `input` (G = 4 H)."""
        _, memory = state
        return self.forms.lstm_gates(memory, projected + self.recurrent(hidden))


class GRUResetFirst(GRU):
    """Gated recurrent unit as in the papers, whose reset gate acts before the recurrent product.

    r, z = σ(W x + U h),  n = tanh(W x + U (r ∘ h)),  h' = (1 - z) ∘ h + z ∘ n

    Cho et al. 2014, section 2.3; Bahdanau, Cho and Bengio 2014, appendix A.1.1. z is as in the
    latter; in the former, z and 1 - z are exchanged.
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
        """The next state, from the inputs projected by `input` (G = 3 H)."""
        x_r, x_z, x_n = jnp.split(projected, 3, axis=-1)
        h_r, h_z = jnp.split(self.recurrent(hidden), 2, axis=-1)
        sigmoid, tanh = self.forms.sigmoid, self.forms.tanh

        @self.forms.keeping_values
        def gates(r: Array, z: Array) -> tuple[Array, Array]:
            return sigmoid(r), sigmoid(z)

        @self.forms.keeping_values
        def moved(state: Array, update: Array, n: Array) -> Array:
            return (1 - update) * state + update * tanh(n)

        reset, update = gates(x_r + h_r, x_z + h_z)
        # The product stays outside of what is recomputed, for its weight gradient to be deferred.
        return moved(state, update, x_n + self.candidate(reset * hidden))


CELLS: dict[str, type[Cell]] = {
    "gru": GRU,
    "gru_reset_first": GRUResetFirst,
    "lstm": LSTM,
    "tanh": Tanh,
}
