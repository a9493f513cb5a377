"""Functions whose intermediate values are computed again for the derivative.

Otherwise JAX stores those values: of an additive score [T, S, A] numbers, of layer normalisation
four arrays as large as its inputs. It costs computing the function twice.
"""

from collections.abc import Callable

import jax


def recomputed(function: Callable) -> Callable:
    """The same function, of which only the arguments are stored for the derivative."""
    return jax.checkpoint(function)


def plain_recomputed(function: Callable) -> Callable:
    """The function itself; JAX stores what it wants for the derivative."""
    return function
