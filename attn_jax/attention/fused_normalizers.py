"""Normalizers that give positions equal weights: those of neighbours, or of similar scores.

The groups are found without a derivative. Weights are then a function of the means of scores over
these groups, which has one.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.normalizers import highest
from attn_jax.attention.past import Past
from attn_jax.attention.protocol import Normalizer
from attn_jax.attention.sparse_normalizers import sparse
from attn_jax.settings.value import setting


class Fusedmax(Normalizer):
    """argmax_α α · e - ‖α‖²/2 - λ Σ_j |α_{j+1} - α_j|: neighbours often get equal weights.

    It is sparsemax of y, the scores with their total variation reduced, which minimises
    ‖y - e‖²/2 + λ Σ_j |y_{j+1} - y_j|. As λ grows from 0, neighbours of y move towards one another,
    fuse where they meet, and never part (Hoefling 2010). Neighbours are real positions.

    Paper: Niculae and Blondel 2017 (fusedmax).
    Cost: time T S for each pair that fuses, memory T S.
    Sum: 1.
    """

    sums_to_one = True
    positional = True

    penalty: float = setting(0.1, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        # y is within 2 λ of e, so that lower scores get no weight, and part from all above them.
        bounded = jnp.maximum(scores - highest(scores, mask), -2 - 8 * self.penalty)
        order = jnp.argsort(~mask, stable=True)  # real positions first
        y = _fused(bounded[order], mask[order], self.penalty)
        return sparse(jnp.zeros_like(y).at[order].set(y), mask, 2.0)


class Oscarmax(Normalizer):
    """argmax_α α · e - ‖α‖²/2 - λ Σ_{j<k} max(α_j, α_k): similar scores get equal weights.

    With the scores in descending order, it is sparsemax of y, the descending sequence nearest to
    e_j - λ (n - j). The authors' program takes the absolute values of scores in their order, and
    raises what is below 0 to 0, so that weights depend on a number that is added to all scores.
    Both agree where no e_j - λ (n - j) is negative.

    Paper: Niculae and Blondel 2017 (oscarmax); Zhong and Kwok 2012.
    Cost: time T S for each of a few passes and T S log S, memory T S.
    Sum: 1.
    """

    sums_to_one = True

    penalty: float = setting(0.1, above=0)

    def weights(
        self, p: Any, scores: Float[Array, " S"], mask: Bool[Array, " S"], past: Past
    ) -> Float[Array, " S"]:
        count = mask.sum()
        # Lower scores get no weight, and are in no group with those that do.
        lowest = -2 - 3 * self.penalty * jnp.maximum(count, 1)
        bounded = jnp.maximum(scores - highest(scores, mask), lowest.astype(scores.dtype))
        order = jnp.argsort(jnp.where(mask, -bounded, jnp.inf), stable=True)
        behind = jnp.maximum(count - 1 - jnp.arange(mask.size), 0)  # n - j
        y = _descending(bounded[order] - self.penalty * behind, mask[order])
        return sparse(jnp.zeros_like(y).at[order].set(y), mask, 2.0)


def _fused(
    scores: Float[Array, " S"], mask: Bool[Array, " S"], penalty: float
) -> Float[Array, " S"]:
    """The sequence y nearest to scores whose total variation costs `penalty`; real ones first."""
    both = mask[1:] & mask[:-1]
    given = jax.lax.stop_gradient(scores)

    def follow(state: tuple) -> tuple:
        y, fused, done = state
        signs = jnp.where(both & ~fused, jnp.sign(y[1:] - y[:-1]), 0)
        # A group rises towards a higher neighbour, and falls towards a lower one.
        slopes = _means(jnp.pad(signs, (0, 1)) - jnp.pad(signs, (1, 0)), fused, mask)
        closing = -signs * (slopes[1:] - slopes[:-1])
        meets = closing > 0
        until = jnp.where(meets, jnp.abs(y[1:] - y[:-1]) / jnp.where(meets, closing, 1), jnp.inf)
        step = jnp.minimum(until.min(initial=jnp.inf), penalty - done)
        fused = fused | (until <= step * (1 + 1e-6))
        return _means(y + slopes * step, fused, mask), fused, done + step

    equal = both & (given[1:] == given[:-1])
    first = given, equal, jnp.zeros((), given.dtype)
    y, fused, _ = jax.lax.while_loop(lambda state: state[2] < penalty, follow, first)
    # A group is the mean of its scores, moved by a constant.
    means = _means(scores, fused, mask)
    return means + jax.lax.stop_gradient(y - means)


def _descending(scores: Float[Array, " S"], mask: Bool[Array, " S"]) -> Float[Array, " S"]:
    """The sequence nearest to scores that never rises: means over groups; real ones first."""
    both = mask[1:] & mask[:-1]
    given = jax.lax.stop_gradient(scores)

    def rises(fused: Bool[Array, " N"]) -> Bool[Array, " N"]:
        means = _means(given, fused, mask)
        return both & ~fused & (means[1:] > means[:-1])

    fused = jax.lax.while_loop(
        lambda fused: rises(fused).any(), lambda fused: fused | rises(fused), jnp.zeros_like(both)
    )
    return _means(scores, fused, mask)


def _means(
    numbers: Float[Array, " S"], fused: Bool[Array, " N"], mask: Bool[Array, " S"]
) -> Float[Array, " S"]:
    """For each position, the mean over its group: positions between which all are fused."""
    group = jnp.cumsum(jnp.pad(~fused, (1, 0)))

    def total(numbers: Array) -> Array:
        return jax.ops.segment_sum(numbers, group, numbers.size + 1)[group]

    real = mask.astype(numbers.dtype)
    return total(numbers * real) / jnp.maximum(total(real), 1)
