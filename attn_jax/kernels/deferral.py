"""A scan whose derivative needs one product per matrix instead of one per matrix and step.

The derivative of `jax.lax.scan` adds to the gradient of a matrix at every step. Here, each product
in a step records its inputs, and the gradient of its outputs is collected by a tap: an argument
that acts like zeros added to the outputs. After the last step, the inputs and gradients of all
steps are multiplied once. Both are stored in the precision of the factors of that product. So are
the gradients of the scan's inputs, since they become factors in the derivatives of earlier
products. It costs one more trace of a step, and no forward mode.

The recorder of the products is a context variable that is set and reset within one trace, by this
module alone; which form of a product runs does not depend on it.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr
from jaxtyping import Array, PyTree

from attn_jax.errors import InputError
from attn_jax.kernels.factors import rounding

Body = Callable[..., tuple[PyTree, PyTree]]  # of its parameters, a state and inputs


class _Product(NamedTuple):
    """A product whose derivative with respect to its matrix is deferred."""

    inputs: Array
    matrix: Array
    derivative: Callable[[Array, Array], Array]
    tap: jax.ShapeDtypeStruct


class _Recorder:
    """The products of a step, in the order in which they are traced, and a tap for each."""

    def __init__(self, taps: list[Array] | None):
        self.taps = taps
        self.products: list[_Product] = []
        # Products in a `vmap` or in another scan within the step are not deferred.
        self.trace = get_opaque_trace_state()


_recorder: contextvars.ContextVar[_Recorder | None] = contextvars.ContextVar(
    "recorder", default=None
)


@contextlib.contextmanager
def _recording(taps: list[Array] | None = None) -> Iterator[list[_Product]]:
    recorder = _Recorder(taps)
    token = _recorder.set(recorder)
    try:
        yield recorder.products
    finally:
        _recorder.reset(token)


def deferring() -> bool:
    """Whether a product made now belongs to a step of `scan`, which can defer its derivative."""
    recorder = _recorder.get()
    return recorder is not None and recorder.trace == get_opaque_trace_state()


def defer(outputs: Array, inputs: Array, matrix: Array, derivative: Callable) -> Array:
    """Leaves the derivative of a product with respect to its matrix to the scan.

    Args:
      outputs: of the product, differentiable with respect to the inputs alone.
      inputs: of the product; the gradients of the outputs are stored in their dtype.
      matrix: of the product, the same at all steps.
      derivative: computes the gradient of the matrix from the inputs and the gradients of the
        outputs of all steps.

    Returns:
      The outputs.
    """
    recorder = _recorder.get()
    if recorder is None:
        raise RuntimeError("this product belongs to no step: ask `deferring` first")
    if recorder.taps is not None:
        tap = recorder.taps[len(recorder.products)]
        outputs = _tapped(outputs, tap.astype(outputs.dtype))
    tap = jax.ShapeDtypeStruct(outputs.shape, inputs.dtype)
    recorder.products.append(_Product(inputs, matrix, derivative, tap))
    return outputs


@jax.custom_vjp
def _tapped(outputs: Array, tap: Array) -> Array:
    return outputs


_tapped.defvjp(lambda outputs, tap: (outputs, None), lambda _, gradient: (gradient, gradient))


def _is_float(leaf: Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _short(leaf: Array) -> Array:
    """An input of the scan in the precision in which its gradient is stored."""
    return leaf.astype(jnp.bfloat16) if rounding() and _is_float(leaf) else leaf


def _standing(leaf: Array, short: Array) -> Array:
    """An input of the scan whose gradient also goes to its short copy."""
    return _tapped(leaf, short.astype(leaf.dtype)) if _is_float(leaf) else leaf


def plain_scan(
    step: Body, parameters: tuple, initial: PyTree, inputs: PyTree, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` of a step with parameters, with JAX's own derivative."""
    return jax.lax.scan(functools.partial(step, *parameters), initial, inputs, reverse=reverse)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 4))
def scan(
    step: Body, parameters: tuple, initial: PyTree, inputs: PyTree, reverse: bool = False
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` with a derivative that is computed as described above.

    Args:
      step: from the parameters, a state and the inputs of a step to the next state and the outputs
        of the step. It must not close over anything that is differentiated.
      parameters: the first arguments of `step`, the same at all steps.
      initial: the initial state.
      inputs: of all steps, each leaf [T, ...]; their gradients have the precision of factors.
      reverse: from the last step to the first.

    Returns:
      The last state, and the outputs of all steps.

    Raises:
      InputError: when differentiated, if a matrix depends on the state or on the inputs of a step.
    """
    return plain_scan(step, parameters, initial, inputs, reverse)


def _forward(
    step: Body, parameters: tuple, initial: PyTree, inputs: PyTree, reverse: bool
) -> tuple[tuple, tuple]:
    length = len(jax.tree.leaves(inputs)[0])
    derivatives: list[Callable] = []
    like_taps: list[jax.ShapeDtypeStruct] = []

    # A first trace of one step, which finds its products: their matrices as functions of the
    # parameters, how each gradient is computed, and the shape of each tap.
    def matrices(parameters: tuple, *of_step: PyTree) -> list[Array]:
        with _recording() as products:
            step(*parameters, *of_step)
        derivatives.extend(product.derivative for product in products)
        like_taps.extend(product.tap for product in products)
        return [product.matrix for product in products]

    # The scan itself. Its derivative with respect to the taps is the gradient of the outputs of
    # every product at every step; `seen` are the inputs of the products.
    def run(parameters: tuple, initial: PyTree, short: PyTree, taps: list) -> tuple:
        def tapped(state: PyTree, of_step: tuple) -> tuple:
            inputs, short, taps = of_step
            inputs = jax.tree.map(_standing, inputs, short)
            with _recording(taps) as products:
                state, shown = step(*parameters, state, inputs)
            return state, (shown, [product.inputs for product in products])

        last, (shown, seen) = jax.lax.scan(tapped, initial, (inputs, short, taps), reverse=reverse)
        return (last, shown), seen

    # What the matrices depend on besides the parameters would get no gradient from them.
    first = jax.tree.map(lambda leaf: leaf[0], inputs)
    traced = jax.make_jaxpr(matrices)(parameters, initial, first)
    _, used = dce_jaxpr(traced.jaxpr, [True] * len(traced.jaxpr.outvars))
    if any(used[len(jax.tree.leaves(parameters)) :]):
        raise InputError(
            "a step multiplies by a matrix, or sums values, that depend on its state or its "
            "inputs: use jnp.matmul or jnp.einsum for these"
        )
    # From the gradients of the matrices to those of the parameters: a matrix may be a part, the
    # transpose or a rounded copy of a parameter.
    flat = jaxpr_as_fun(traced)
    _, of_parameters = jax.vjp(
        lambda values: flat(*jax.tree.leaves((values, initial, first))), parameters
    )
    taps = [jnp.zeros((length, *tap.shape), tap.dtype) for tap in like_taps]
    short, widen = jax.vjp(functools.partial(jax.tree.map, _short), inputs)
    results, pull, seen = jax.vjp(run, parameters, initial, short, taps, has_aux=True)
    deferred = [jax.tree_util.Partial(*both) for both in zip(derivatives, seen, strict=True)]
    return results, (pull, of_parameters, deferred, widen)


def _backward(step: Body, reverse: bool, residuals: tuple, gradients: tuple) -> tuple:
    pull, of_parameters, deferred, widen = residuals
    # Of what is not the matrix of a product, such as a bias, JAX has the gradient as ever.
    of_others, initial, short, taps = pull(gradients)
    # One product for each matrix, over all steps at once: what this module is for.
    (of_matrices,) = of_parameters(
        [derivative(tap) for derivative, tap in zip(deferred, taps, strict=True)]
    )

    def add(one, other):  # the gradient of a mask is of dtype float0, which JAX cannot add
        return one if one.dtype == jax.dtypes.float0 else one + other

    return jax.tree.map(add, of_others, of_matrices), initial, *widen(short)


scan.defvjp(_forward, _backward)
