"""Kinds of hard attention in which a position depends on the previous one: their transitions.

B sentences, S positions, T steps, M moves. j is the previous position, k the next one.
"""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree

from attn_jax.config import Model
from attn_jax.models.hidden_markov import HiddenMarkov
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW


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


class FirstOrder(HiddenMarkov):
    """p(a_i = k | a_{i-1} = j) ∝ 1{|k-j| ≤ w} exp(u_{k-j}), u = U [s_i; h_j] + b: of order 1.

    w is `model.longest_move`, 5 as in the paper's program. There is no α, and so no score: where
    one attends to depends on where one was. The program multiplies h_j by a matrix first, which is
    here a part of U, and adds 1e-7 to each probability.

    Paper: Wu and Cotterell 2019; read in its program, neural-transducer.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    options = frozenset({"longest_move"})
    reads_weights = False
    monotonic = False

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        self.window = config.longest_move
        self.back = 0 if self.monotonic else self.window  # the longest move back
        _, read = config.values.sizes(config.annotation_size, config.embedding_size)
        moves = self.back + 1 + self.window
        self.moves_from = Linear(read, moves, use_bias=False, rngs=rngs)
        self.moves = Linear(config.hidden_size, moves, rngs=rngs)

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S M"]:
        """The part of the positions that are left in the scores of moves."""
        return self.moves_from(contexts)

    def of_states(self, outputs: Float[Array, "B *T H"]) -> Float[Array, "B *T M"]:
        """The part of the states in the scores of moves."""
        return self.moves(outputs)

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
