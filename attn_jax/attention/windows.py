"""Windows: which source positions a step may attend to, for any score.

A window is a part (see `parts`) `window(query [Q], mask [S]) -> (support [S], gain [S])`. Scores
are normalised over the support, other positions get weight 0, and the weights are then multiplied
by the gain.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.attention.parts import Shapes, Sizes, part
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError

Window = tuple[Bool[Array, " S"], Float[Array, " S"]]


def full(query: Float[Array, " Q"], mask: Bool[Array, " S"]) -> Window:
    """Every real position.

    Paper: Luong, Pham and Manning 2015, section 3.1 (global attention).
    Cost: none.
    """
    return mask, jnp.ones(mask.shape, jnp.float32)


def _within(mask: Bool[Array, " S"], centre: Array, half_width: int) -> Bool[Array, " S"]:
    if half_width < 1:
        raise InputError(f"a window's half_width must be at least 1, got {half_width}")
    return mask & (jnp.abs(jnp.arange(1, mask.size + 1) - centre) <= half_width)


def _length(mask: Bool[Array, " S"]) -> Array:
    return jnp.max(jnp.where(mask, jnp.arange(1, mask.size + 1), 0))


def local_m(
    query: Float[Array, " Q"],
    mask: Bool[Array, " S"],
    *,
    step: Int[Array, ""],
    half_width: int = 10,
) -> Window:
    """|j - p_i| ≤ w around p_i = i, w = `half_width`.

    w is the paper's D. Assumes that source and target are roughly aligned word by word. At steps
    beyond the end of the source, which the paper does not specify, the window stays at the last
    word.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-m).
    Cost: time T S, memory T S.
    """
    centre = jnp.minimum(step + 1, _length(mask))
    return _within(mask, centre, half_width), jnp.ones(mask.shape, jnp.float32)


def _local_p_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.A), "v": (sizes.A,)}


@part(shapes=_local_p_shapes)
def local_p(
    query: Float[Array, " Q"],
    mask: Bool[Array, " S"],
    *,
    W: Float[Array, "Q A"],
    v: Float[Array, " A"],
    half_width: int = 10,
) -> Window:
    """|j - p_i| ≤ w around p_i = S σ(v · tanh(W s)), gain exp(-2 (j - p_i)² / w²).

    w is `half_width`, the paper's D. As in the paper, weights are not normalised again after the
    gain, so that they sum to less than 1. Gradients reach the position p_i only through the gain.

    Paper: Luong, Pham and Manning 2015, section 3.2 (local-p), equations 9 and 10.
    Cost: time T (S + Q A), memory T S.
    """
    # In float32 at least, since bfloat16 cannot distinguish position 257 from 256.
    centre = _length(mask) * jax.nn.sigmoid(widen(v @ jnp.tanh(query @ W)))
    distances = jnp.arange(1, mask.size + 1) - centre
    gain = jnp.exp(-2 * (distances / half_width) ** 2)  # a normal density with σ = w / 2
    return _within(mask, centre, half_width), gain
