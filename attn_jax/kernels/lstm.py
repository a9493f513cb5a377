"""The arithmetic of an LSTM, with derivatives written by hand: of its gates, and of a whole layer.

A scan writes each array that its derivative needs into an array for all steps. With JAX's own
derivative, these are a cell's four gates, one by one, and its masks. Here all gates are one array.
In a layer over known inputs they even replace the projected inputs, and are replaced by their
gradients, in the same array. It costs forward mode, and tanh(c), which is computed again.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.kernels.factors import factor
from attn_jax.kernels.products import matmul, of_inputs, of_matrix, plain_product

State = tuple[Float[Array, "B H"], Float[Array, "B H"]]  # h and c


@jax.custom_vjp
def gates(memory: Float[Array, "B H"], inputs: Float[Array, "B G"]) -> State:
    """The next h and c, from c and the inputs of the gates i, f, g, o (G = 4 H)."""
    return _moved(memory, _opened(inputs))


def plain_gates(memory: Float[Array, "B H"], inputs: Float[Array, "B G"]) -> State:
    """c' = σ(f) ∘ c + σ(i) ∘ tanh(g), h' = σ(o) ∘ tanh(c')."""
    i, f, g, o = jnp.split(inputs, 4, axis=-1)
    memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(memory), memory


def _opened(inputs: Float[Array, "B G"]) -> Float[Array, "B G"]:
    """The gates i, f, o = σ(.) and g = tanh(.), in the order of their inputs."""
    # σ(x) = tanh(x / 2) / 2 + 1 / 2, so that all gates are computed in one loop.
    scale = jnp.repeat(jnp.array([0.5, 0.5, 1, 0.5], inputs.dtype), inputs.shape[-1] // 4)
    return jax.lax.optimization_barrier(scale * jnp.tanh(scale * inputs) + (1 - scale))


def _moved(memory: Float[Array, "B H"], opened: Float[Array, "B G"]) -> State:
    i, f, g, o = jnp.split(opened, 4, axis=-1)
    memory = f * memory + i * g
    return o * jnp.tanh(memory), memory


def _forward_gates(memory: Array, inputs: Array) -> tuple[State, tuple[Array, Array]]:
    opened = _opened(inputs)
    return _moved(memory, opened), (memory, opened)


def _backward_gates(kept: tuple[Array, Array], gradients: State) -> tuple[Array, Array]:
    """The gradients of the memory and of the inputs of the gates."""
    memory, opened = kept
    of_hidden, of_memory = gradients
    # Copied out of the array of all steps, since reading parts of that takes longer.
    i, f, g, o = jnp.split(jax.lax.optimization_barrier(opened), 4, axis=-1)
    read = jnp.tanh(f * memory + i * g)
    of_memory = jax.lax.optimization_barrier(of_memory + of_hidden * o * (1 - read**2))
    of_gates = [
        of_memory * g * i * (1 - i),
        of_memory * memory * f * (1 - f),
        of_memory * i * (1 - g**2),
        of_hidden * read * o * (1 - o),
    ]
    return of_memory * f, jnp.concatenate(of_gates, axis=-1)


gates.defvjp(_forward_gates, _backward_gates)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def layer(
    matrix: Float[Array, "H G"],
    projected: Float[Array, "T B G"],
    mask: Bool[Array, "T B"],
    initial: State,
    reverse: bool,
) -> tuple[State, Float[Array, "T B H"]]:
    """Runs an LSTM over all steps, with the same result as a scan of the cell.

    Args:
      matrix: U, of the recurrent product.
      projected: the inputs of all steps, W x + b.
      mask: a step where it is False keeps the previous state.
      initial: h and c before the first step.
      reverse: from the last step to the first.

    Returns:
      The last h and c, and h at all steps.
    """
    return _forward(matrix, projected, mask, initial, reverse)[0]


def plain_layer(
    matrix: Float[Array, "H G"],
    projected: Float[Array, "T B G"],
    mask: Bool[Array, "T B"],
    initial: State,
    reverse: bool,
) -> tuple[State, Float[Array, "T B H"]]:
    """A scan of the gates, whose inputs are W x + b + U h."""

    def step(state: State, inputs: tuple) -> tuple[State, Array]:
        projected, real = inputs
        hidden, memory = state
        moved = plain_gates(memory, projected + plain_product(hidden, matrix))
        state = _where(real, moved, state)
        return state, state[0]

    return jax.lax.scan(step, initial, (projected, mask), reverse=reverse)


def _forward(
    matrix: Array, projected: Array, mask: Array, initial: State, reverse: bool
) -> tuple[tuple[State, Array], tuple]:
    matrix = factor(matrix)

    def step(nth: Array, carry: tuple) -> tuple:
        t = len(mask) - 1 - nth if reverse else nth
        state, opened, states = carry
        hidden, memory = state
        now = _opened(_at(opened, t) + matmul(hidden, matrix))
        state = _where(mask[t], _moved(memory, now), state)
        states = jax.tree.map(lambda all_steps, one: _put(all_steps, one, t), states, state)
        return state, _put(opened, now, t), states

    states = jax.tree.map(lambda leaf: jnp.zeros((len(mask), *leaf.shape), leaf.dtype), initial)
    last, opened, states = jax.lax.fori_loop(0, len(mask), step, (initial, projected, states))
    return (last, states[0]), (matrix, mask, initial, opened, states)


def _backward(reverse: bool, kept: tuple, gradients: tuple[State, Array]) -> tuple:
    matrix, mask, initial, opened, states = kept
    of_last, of_outputs = gradients
    hiddens, memories = jax.tree.map(functools.partial(_before, reverse), initial, states)

    def step(nth: Array, carry: tuple) -> tuple:
        t = nth if reverse else len(mask) - 1 - nth
        (of_hidden, of_memory), opened = carry
        of_state = of_hidden + _at(of_outputs, t), of_memory
        nothing = jax.tree.map(jnp.zeros_like, of_state)
        of_moved = _where(mask[t], of_state, nothing)
        of_memory, of_gates = _backward_gates((_at(memories, t), _at(opened, t)), of_moved)
        through = of_inputs(of_gates, matrix), of_memory
        of_state = jax.tree.map(jnp.add, through, _where(mask[t], nothing, of_state))
        return of_state, _put(opened, of_gates, t)

    of_initial, of_projected = jax.lax.fori_loop(0, len(mask), step, (of_last, opened))
    of_recurrent = of_matrix(hiddens.astype(matrix.dtype), of_projected)
    return of_recurrent, of_projected, None, of_initial


layer.defvjp(_forward, _backward)


def _at(steps: Float[Array, "T ..."], t: Array) -> Float[Array, "..."]:
    return jax.lax.dynamic_index_in_dim(steps, t, keepdims=False)


def _put(steps: Float[Array, "T ..."], one: Float[Array, "..."], t: Array) -> Array:
    return jax.lax.dynamic_update_index_in_dim(steps, one, t, 0)


def _where(real: Bool[Array, " B"], state: State, other: State) -> State:
    return jax.tree.map(lambda one, two: jnp.where(real[:, None], one, two), state, other)


def _before(reverse: bool, first: Array, states: Float[Array, "T ..."]) -> Array:
    """The state before each step."""
    kept = [states[1:], first[None]] if reverse else [first[None], states[:-1]]
    return jnp.concatenate(kept)
