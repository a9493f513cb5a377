"""Recurrent cells, and the scan that runs one over a batch of padded sentences.

A cell has two halves: `input`, which reads the inputs of all steps at once, outside the scan, and
the call, which is what must wait for the state before it.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float


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

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs):
        self.input = nnx.Linear(features, 3 * units, rngs=rngs)
        self.recurrent = nnx.Linear(units, 3 * units, kernel_init=orthogonal_gates, rngs=rngs)

    def __call__(
        self, state: Float[Array, "B H"], projected: Float[Array, "B G"]
    ) -> Float[Array, "B H"]:
        """The next state, from the inputs as `input` projected them (G = 3 H)."""
        x_r, x_z, x_n = jnp.split(projected, 3, axis=-1)
        h_r, h_z, h_n = jnp.split(self.recurrent(state), 3, axis=-1)
        reset, update = jax.nn.sigmoid(x_r + h_r), jax.nn.sigmoid(x_z + h_z)
        return (1 - update) * jnp.tanh(x_n + reset * h_n) + update * state


def unroll(
    cell: GRU,
    projected: Float[Array, "B T G"],
    mask: Bool[Array, "B T"],
    initial: Float[Array, "B H"],
    *,
    reverse: bool = False,
) -> Float[Array, "B T H"]:
    """The states of a cell over whole sentences.

    A masked step keeps the state. So padding on the right leaves the last state where it was when
    reading forwards, and is passed in the initial state when reading backwards.
    """

    def step(state, inputs):
        projected, real = inputs
        state = jnp.where(real[:, None], cell(state, projected), state)
        return state, state

    steps = jnp.swapaxes(projected, 0, 1), jnp.swapaxes(mask, 0, 1)
    _, states = jax.lax.scan(step, initial, steps, reverse=reverse)
    return jnp.swapaxes(states, 0, 1)
