"""A loop over a batch that shrinks as its sentences finish."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

STAGES = 4  # batch sizes, each 5/8 of the previous one and compiled separately


def map_rows(function: Callable, tree: PyTree, *rest: PyTree) -> PyTree:
    """Maps over the leaves that have rows; scalars, which all rows share, are those of `tree`."""
    return jax.tree.map(
        lambda leaf, *others: function(leaf, *others) if leaf.ndim else leaf, tree, *rest
    )


def until_done(
    advance: Callable[[PyTree, PyTree], PyTree],
    active: Callable[[PyTree, PyTree], Bool[Array, " B"]],
    fixed: PyTree,
    carry: PyTree,
    stages: int = STAGES,
) -> PyTree:
    """Applies `advance` until no row is active.

    Sentences end at very different steps. When three eighths of the rows have finished, the others
    continue as a smaller batch, and their results are scattered back into the original rows.

    Args:
      advance: maps `fixed` and a carry to the next carry; its effect on inactive rows must not
        matter.
      active: maps `fixed` and a carry to a mask of the rows that have not finished.
      fixed: constants of the rows, [B, ...].
      carry: loop variables of the rows, [B, ...], and scalars that all rows share.
      stages: largest number of batch sizes, the first included.

    Returns:
      The final carry.
    """
    rows = len(active(fixed, carry))
    fewest = rows * 5 // 8 if stages > 1 else 0
    carry = jax.lax.while_loop(
        lambda carry: active(fixed, carry).sum() > fewest, partial(advance, fixed), carry
    )
    if not fewest:
        return carry
    # Active rows come first. There are at most `fewest`, so all of them are kept. The others have
    # finished, and what `advance` makes of them does not matter.
    kept = jnp.argsort(~active(fixed, carry), stable=True)[:fewest]
    fixed, part = (map_rows(lambda leaf: leaf[kept], tree) for tree in (fixed, carry))
    part = until_done(advance, active, fixed, part, stages - 1)
    return map_rows(lambda some, whole: whole.at[kept].set(some), part, carry)
