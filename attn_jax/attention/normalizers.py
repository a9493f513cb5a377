"""Normalizers: from scores [S] and a mask [S] to weights [S]; a masked position gets exactly 0."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def softmax(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """exp(e_j) / Σ_k exp(e_k) over the real positions.

    Where nothing may be attended, every weight is 0 and every gradient 0, never NaN. Computed in
    float32 at least, and given back in the type of the scores.

    Bahdanau, Cho and Bengio 2014, equation 6.
    """
    wide = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    return jax.nn.softmax(wide, where=mask).astype(scores.dtype)


def last(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """All weight on the last real position: the fixed context of a decoder without attention.

    Cho et al. 2014 and Sutskever et al. 2014 give a decoder nothing but the encoder's last state.
    """
    positions = jnp.arange(mask.size)
    return (positions == jnp.max(jnp.where(mask, positions, -1))).astype(scores.dtype)


NORMALIZERS: dict[str, Callable] = {"softmax": softmax}

# Weights that do not look at the scores: what attention is compared with.
CONTROLS: dict[str, Callable] = {"last": last}
