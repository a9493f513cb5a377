"""A scan whose derivative makes one product for each matrix over all steps.

The derivative of `jax.lax.scan` adds to the gradient of a matrix at every step. Here each product
of a step records its inputs, and gets the gradient of its outputs through a tap, which stands for
zeros that are added to them. After all steps, inputs and gradients are multiplied once. Both are
kept in the precision of that product's factors, and so are the gradients of the steps' inputs,
which are themselves factors in the derivatives of products before the scan.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state
from jaxtyping import Array, PyTree

from attn_jax.models.factors import rounding

Step = Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]


class _Product(NamedTuple):
    """A product whose derivative by its matrix is deferred."""

    inputs: Array
    matrix: Array
    derivative: Callable[[Array, Array], Array]
    tap: jax.ShapeDtypeStruct


class _Found:
    """The products of a step in the order in which they are traced, and a tap for each."""

    def __init__(self, taps: list[Array] | None):
        self.taps = taps
        self.products: list[_Product] = []
        # A product inside of a `vmap` or of another scan of the step does not belong to it.
        self.trace = get_opaque_trace_state()


_found: contextvars.ContextVar[_Found | None] = contextvars.ContextVar("found", default=None)


@contextlib.contextmanager
def _finding(taps: list[Array] | None = None) -> Iterator[list[_Product]]:
    found = _Found(taps)
    token = _found.set(found)
    try:
        yield found.products
    finally:
        _found.reset(token)


def deferring() -> bool:
    """Whether products are those of a step, and can leave a derivative to its scan."""
    found = _found.get()
    return found is not None and found.trace == get_opaque_trace_state()


def defer(outputs: Array, inputs: Array, matrix: Array, derivative: Callable) -> Array:
    """The outputs of a product, whose derivative by its matrix is left to the scan.

    Args:
      outputs: what has a derivative by the inputs alone.
      inputs: of the product, in the precision in which the gradient of the outputs is wanted too.
      matrix: of the product, the same at all steps.
      derivative: by the matrix, from the inputs and the gradients of the outputs of all steps.
    """
    found = _found.get()
    if found.taps is not None:
        own = found.taps[len(found.products)]
        outputs = _tapped(outputs, own.astype(outputs.dtype))
    tap = jax.ShapeDtypeStruct(outputs.shape, inputs.dtype)
    found.products.append(_Product(inputs, matrix, derivative, tap))
    return outputs


@jax.custom_vjp
def _tapped(outputs: Array, tap: Array) -> Array:
    return outputs


_tapped.defvjp(lambda outputs, tap: (outputs, None), lambda _, gradient: (gradient, gradient))


def _is_float(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _short(leaf: Array) -> Array:
    """What an input is in the precision in which its gradient waits."""
    return leaf.astype(jnp.bfloat16) if rounding() and _is_float(leaf) else leaf


def _standing(leaf: Array, short: Array) -> Array:
    """An input whose gradient goes to what stands for it."""
    return _tapped(leaf, short.astype(leaf.dtype)) if _is_float(leaf) else leaf


def scan(
    step: Step, parameters: PyTree, initial: PyTree, inputs: PyTree, *, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` of a step, with another way to the same derivative.

    Args:
      step: from parameters, a state and the inputs of a step to the next state and what it shows;
        it closes over nothing that has a derivative.
      parameters: what is the same at all steps.
      initial: the first state.
      inputs: of all steps, each leaf [T, ...]; their gradient is in the precision of factors.
      reverse: from the last step to the first.

    Returns:
      The last state, and what all steps have shown.
    """
    return _scan(step, reverse, parameters, initial, inputs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _scan(step: Step, reverse: bool, parameters: PyTree, initial: PyTree, inputs: PyTree) -> tuple:
    return jax.lax.scan(functools.partial(step, parameters), initial, inputs, reverse=reverse)


def _forward(
    step: Step, reverse: bool, parameters: PyTree, initial: PyTree, inputs: PyTree
) -> tuple[tuple, tuple]:
    length = len(jax.tree.leaves(inputs)[0])
    derivatives, taps = [], []

    def matrices(parameters: PyTree) -> list[Array]:
        with _finding() as products:
            step(parameters, initial, jax.tree.map(lambda leaf: leaf[0], inputs))
        for product in products:
            derivatives.append(product.derivative)
            taps.append(jnp.zeros((length, *product.tap.shape), product.tap.dtype))
        return [product.matrix for product in products]

    def run(parameters: PyTree, initial: PyTree, short: PyTree, taps: list) -> tuple:
        def tapped(state: PyTree, given: tuple) -> tuple:
            inputs, short, taps = given
            inputs = jax.tree.map(_standing, inputs, short)
            with _finding(taps) as products:
                state, shown = step(parameters, state, inputs)
            return state, (shown, [product.inputs for product in products])

        last, (shown, seen) = jax.lax.scan(tapped, initial, (inputs, short, taps), reverse=reverse)
        return (last, shown), seen

    _, of_parameters = jax.vjp(matrices, parameters)
    short, widen = jax.vjp(functools.partial(jax.tree.map, _short), inputs)
    results, pull, seen = jax.vjp(run, parameters, initial, short, taps, has_aux=True)
    deferred = [jax.tree_util.Partial(*both) for both in zip(derivatives, seen, strict=True)]
    return results, (pull, of_parameters, deferred, widen)


def _backward(step: Step, reverse: bool, residuals: tuple, gradients: tuple) -> tuple:
    pull, of_parameters, deferred, widen = residuals
    of_others, initial, short, taps = pull(gradients)
    (of_matrices,) = of_parameters([own(tap) for own, tap in zip(deferred, taps, strict=True)])

    def add(one, other):  # a mask has no derivative, which is no array of JAX either
        return one if one.dtype == jax.dtypes.float0 else one + other

    return jax.tree.map(add, of_others, of_matrices), initial, *widen(short)


_scan.defvjp(_forward, _backward)
