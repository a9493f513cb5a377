"""A loop over a batch that shrinks as its sentences finish."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

STAGES = 4  # sizes of the batch, each 5/8 of the one before and compiled by itself


def rows_of(tree: PyTree, rows: Int[Array, " N"]) -> PyTree:
    """Some rows of the leaves; leaves without rows, which all share, as they are."""
    return jax.tree.map(lambda leaf: leaf[rows] if leaf.ndim else leaf, tree)


def until_done(
    advance: Callable[[PyTree, PyTree], PyTree],
    active: Callable[[PyTree, PyTree], Bool[Array, " B"]],
    fixed: PyTree,
    carry: PyTree,
    stages: int = STAGES,
) -> PyTree:
    """Advances until no row is active.

    When three eighths of the rows are done, the others go on by themselves, and what comes of them
    is put back in its place: sentences end at very different steps.

    Args:
      advance: from `fixed` and a carry to the next carry; what it does to a row that is not active
        must not matter.
      active: whether each row goes on.
      fixed: what the rows keep, [B, ...].
      carry: what changes, [B, ...], and scalars that all rows share.
      stages: how often the batch may be of another size.
    """
    rows = len(active(fixed, carry))
    fewest = rows * 5 // 8 if stages > 1 else 0
    carry = jax.lax.while_loop(
        lambda carry: active(fixed, carry).sum() > fewest, partial(advance, fixed), carry
    )
    if not fewest:
        return carry
    kept = jnp.argsort(~active(fixed, carry), stable=True)[:fewest]
    rest = until_done(advance, active, rows_of(fixed, kept), rows_of(carry, kept), stages - 1)
    return jax.tree.map(
        lambda whole, part: whole.at[kept].set(part) if whole.ndim else part, carry, rest
    )
