"""Kinds of hard attention in which a position depends on the previous one: their transitions.

B sentences, S positions, T steps, M moves. j is the previous position, k the next one.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree

from attn_jax.config import Model
from attn_jax.models.hidden_markov import HiddenMarkov
from attn_jax.models.marginal import LOW, ByMoves


def shifted(moves: Float[Array, "B S M"], back: int) -> Float[Array, "B S S"]:
    """The scores of moves from j to k, u_{k-j}, where moves begin with that by -`back`.

    Longer moves have the score of the longest; for k - j < -back, without a meaning. Row j is moved
    by j to the right: rows are joined, and cut again one number shorter.
    """
    rows, size, count = moves.shape
    wide = size + back
    scores = jnp.pad(moves, ((0, 0), (0, 0), (0, max(wide - count, 0))), mode="edge")[..., :wide]
    joined = jnp.pad(scores, ((0, 0), (0, 0), (0, size))).reshape(rows, -1)
    cut = joined[:, : size * (wide + size - 1)].reshape(rows, size, -1)
    return cut[..., back : back + size]


class MonotonicMarginal(HiddenMarkov):
    """p(a_i = k | a_{i-1} = j) ∝ 1{k ≥ j} α_ik: order 0, masked so that it never goes back.

    The paper's 0-mono. Its program gives moves back a factor of 1e-7 in place of 0.

    Paper: Wu and Cotterell 2019; read in its program, neural-transducer.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    def scores(
        self,
        log_weights: Float[Array, "B S"],
        moves: PyTree[Float[Array, "B S M"]],
        shift: Int[Array, "S S"],
    ) -> Float[Array, "B S S"]:
        """log α_ik, for k ≥ j."""
        return jnp.where(shift >= 0, log_weights[:, None], LOW)


class FirstOrder(ByMoves, HiddenMarkov):
    """p(a_i = k | a_{i-1} = j) ∝ 1{|k-j| ≤ w} exp(u_{k-j}), u = U [s_i; h_j] + b: of order 1.

    w is `model.longest_move`, 5 as in the paper's program, which multiplies h_j by a matrix first,
    here a part of U, and adds 1e-7 to each probability.

    Paper: Wu and Cotterell 2019; read in its program, neural-transducer.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    options = frozenset({"longest_move"})
    monotonic = False

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        self.window = config.longest_move
        self.back = 0 if self.monotonic else self.window  # the longest move back
        super().__init__(config, inputs, self.back + 1 + self.window, rngs=rngs)

    def scores(
        self, log_weights: Float[Array, "B S"], moves: Float[Array, "B S M"], shift: Array
    ) -> Float[Array, "B S S"]:
        """u_{k-j}, for moves that are not longer than w."""
        near = (-self.back <= shift) & (shift <= self.window)
        return jnp.where(near, shifted(moves, self.back), LOW)


class MonotonicFirstOrder(FirstOrder):
    """p(a_i = k | a_{i-1} = j) ∝ 1{0 ≤ k-j ≤ w} exp(u_{k-j}): order 1 that never goes back.

    The paper's 1-mono. Its program computes all 2 w + 1 scores and masks those of moves back, which
    gives the same; and it gives these a factor of 1e-7 in place of 0.

    Paper: Wu and Cotterell 2019; read in its program, neural-transducer.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    monotonic = True


class SegmentToSegment(ByMoves, HiddenMarkov):
    """p(a_i = k | a_{i-1} = j) = e_k Π_{j≤l<k} (1 - e_l), e_j = σ(u · [s_i; h_j] + b), for k ≥ j.

    At each position a word is emitted, with the probability e, or the source is read on (SSNT). The
    paper leaves open what follows the last position: there, e = 1.

    Paper: Yu, Buys and Blunsom 2016, sections 2 and 3.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, 1, rngs=rngs)

    def scores(
        self, log_weights: Float[Array, "B S"], moves: Float[Array, "B S 1"], shift: Array
    ) -> Float[Array, "B S S"]:
        """log e_k + Σ_{j≤l<k} log (1 - e_l), for k ≥ j."""
        real = log_weights > LOW / 2
        is_last = real & ~jnp.pad(real, ((0, 0), (0, 1)))[:, 1:]
        emits = jnp.where(is_last, 0, jax.nn.log_sigmoid(moves[..., 0]))
        reads_on = jax.nn.log_sigmoid(-moves[..., 0])
        before = jnp.cumsum(reads_on, axis=1) - reads_on  # the sum over l < j
        passed = before[:, None] - before[..., None]
        return jnp.where(shift >= 0, emits[:, None] + passed, LOW)


class MonotonicHMM(MonotonicFirstOrder):
    """p(a_i = k | a_{i-1} = j) ∝ 1{k ≥ j} α_ik exp(u_{k-j}): α and u, both of the paper's models.

    u as in `first_order`, with the score of the longest move for all that are longer. A weight that
    rounds to 0 in float32 counts as 0.

    Paper: none; without u it is 0-mono, without α nearly 1-mono of Wu and Cotterell 2019.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    reads_weights = True

    def scores(
        self, log_weights: Float[Array, "B S"], moves: Float[Array, "B S M"], shift: Array
    ) -> Float[Array, "B S S"]:
        """log α_ik + u_{min(k-j, w)}, for k ≥ j."""
        return jnp.where(shift >= 0, log_weights[:, None] + shifted(moves, self.back), LOW)
