"""The readout of hard monotonic attention: a hidden Markov model of the positions.

The forward algorithm sums over all alignments that never go back. In use, each step hands what it
believes of its position to the next one, which knows the word that was chosen.

B sentences, S positions, T steps, M moves.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.config import Model
from attn_jax.models.embeddings import Separate
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW, Marginal, Over, Steps, mixed, total
from attn_jax.models.protocols import Source


def log_transitions(
    log_weights: Float[Array, "B S"], moves: Float[Array, "B S M"]
) -> Float[Array, "B S S"]:
    """log p(a_i = k | a_{i-1} = j) over k: 1{k ≥ j} α_ik exp(u_{k-j}), normalised.

    Where no weight is left at or after j, the alignment stays at j.

    Args:
      log_weights: log α_ik.
      moves: u_0 ... u_{M-1} for each j; longer moves have the score of the longest.
    """
    places = jnp.arange(log_weights.shape[-1])
    ahead = places >= places[:, None]
    reached = ahead & (log_weights > LOW / 2)[:, None, :]
    stays = ~reached.any(axis=-1, keepdims=True) & (places == places[:, None])
    scores = jnp.where(reached, log_weights[:, None, :] + shifted(moves), jnp.where(stays, 0, LOW))
    return jnp.where(reached | stays, jax.nn.log_softmax(scores), LOW)


def shifted(moves: Float[Array, "B S M"]) -> Float[Array, "B S S"]:
    """The scores of moves from j to k, u_{min(k - j, M - 1)}; for k < j without a meaning.

    Row j is moved by j to the right: rows are joined, and cut again one number shorter.
    """
    rows, size, _ = moves.shape
    longer = jnp.broadcast_to(moves[..., -1:], (rows, size, size))
    scores = jnp.concatenate([moves, longer], axis=-1)[..., :size]
    joined = jnp.pad(scores, ((0, 0), (0, 0), (0, size))).reshape(rows, -1)
    return joined[:, : size * (2 * size - 1)].reshape(rows, size, -1)[..., :size]


def forward(
    likelihoods: Float[Array, "B T S"],
    log_weights: Float[Array, "B T S"],
    moves: Float[Array, "B T M"],
    moves_from: Float[Array, "B S M"],
    real: Bool[Array, "B T"],
    over: Over,
    recomputed: Callable,
) -> tuple[Float[Array, " B"], Float[Array, "B T S"]]:
    """The forward algorithm: f_i(k) = Σ_j f_{i-1}(j) p(a_i = k | a_{i-1} = j) p(y_i | s_i, h_k).

    So f_i(k) = p(y_≤i, a_i = k | x). Rabiner 1989, section III.A; with `best` for `over`, the
    Viterbi algorithm, section III.B.

    Args:
      likelihoods: log p(y_i | s_i, h_k).
      log_weights, moves: of the steps; `moves_from`: of the positions.
      real: False at steps of padding, which leave f as it is.
      over: how alignments are put together, `total` or `best`.
      recomputed: of `Forms`.

    Returns:
      log p(y | x), or that of y with the best alignment; and the prior, log p(a_i = k | y_<i, x).
    """

    @recomputed
    def advance(before: Array, inputs: tuple) -> tuple[Array, Array]:
        likelihoods, log_weights, moves, real = inputs
        transitions = log_transitions(log_weights, moves[:, None] + moves_from)
        predicted = over(before[..., None] + transitions, 1)  # one move, before the word is seen
        after = jnp.where(real[:, None], predicted + likelihoods, before)
        # `predicted` is p(y_<i, a_i = k), and the sum of `before` is p(y_<i): their quotient is the
        # prior.
        return after, predicted - over(before, 1)[:, None]

    by_step = jax.tree.map(
        lambda leaf: jnp.swapaxes(leaf, 0, 1), (likelihoods, log_weights, moves, real)
    )
    last, prior = jax.lax.scan(advance, first_place(log_weights[:, 0]), by_step)
    return over(last, 1), jnp.swapaxes(prior, 0, 1)


def first_place(log_weights: Float[Array, "B S"]) -> Float[Array, "B S"]:
    """log p(a_0 = j): the alignment comes from the first position."""
    places = jnp.arange(log_weights.shape[-1])
    return jnp.broadcast_to(jnp.where(places == 0, 0.0, LOW), log_weights.shape)


class Belief(NamedTuple):
    """What a step of `MonotonicHMM` hands to the next one, which knows the word that was chosen."""

    of_states: Float[Array, "B F"]
    log_prior: Float[Array, "B S"]  # log p(a_i = j | y_<i, x)
    normalizers: Float[Array, "B S"]  # of the probabilities of words at each position


class MonotonicHMM(Marginal):
    """p(a_i = k | a_{i-1} = j) ∝ 1{k ≥ j} α_ik exp(u_{k-j}): hard attention that never goes back.

    u = U [c_j; s_i] + b, and a_0 is the first position. Without u, it is the paper's 0-mono. The
    paper's order 1 has exp(u) alone, without α, for moves of less than M positions; here longer
    ones have the score of the longest. A weight that rounds to 0 in float32 counts as 0.

    Paper: Wu and Cotterell 2019, sections 3 and 4.
    Cost: S times the output layer, which training computes twice; T S² for the transitions.
    """

    positional = True
    MOVES = 6  # M, of 0 to 4 positions and of 5 or more

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        _, read = config.values.sizes(config.annotation_size, config.embedding_size)
        self.moves_from = Linear(read, self.MOVES, use_bias=False, rngs=rngs)
        self.moves = Linear(config.hidden_size, self.MOVES, rngs=rngs)

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S M"]:
        """The part of the positions that are left in the scores of moves."""
        return self.moves_from(contexts)

    def of_states(self, outputs: Float[Array, "B *T H"]) -> Float[Array, "B *T M"]:
        """The part of the states in the scores of moves."""
        return self.moves(outputs)

    def start(self, source: Source) -> Belief:
        """The belief before the first step: at the first position, whatever the word before."""
        features = source.projected.features
        nowhere = jnp.zeros(features.shape[:2])
        return Belief(jnp.zeros_like(features[:, 0]), first_place(nowhere), nowhere)

    def step(
        self,
        words: Separate,
        carried: PyTree,
        word: Int[Array, " B"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N S"],
    ) -> tuple[Belief, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The next belief, the log-probabilities of the next word, and the prior."""
        # p(a_{i-1} | y_<i) ∝ p(a_{i-1} | y_<i-1) p(y_{i-1} | s_{i-1}, h_j).
        matrix, bias = words.output_layer()
        features = jnp.tanh(source.projected.features + carried.of_states[:, None])
        of_word = jnp.einsum("BSF,BF->BS", features, matrix.T[word]) + bias[word][:, None]
        filtered = jax.nn.log_softmax(carried.log_prior + of_word - carried.normalizers)
        moves = steps.moves[:, None] + source.projected.moves
        transitions = log_transitions(steps.log_weights, moves)
        prior = total(filtered[..., None] + transitions, 1)

        now = jax.tree.map(lambda leaf: leaf[:, None], steps)
        logits = self._logits(words, source, now)[:, 0]
        normalizers = jax.nn.logsumexp(logits, axis=-1)
        belief = Belief(steps.of_states, prior, normalizers)
        return belief, mixed(logits, normalizers, prior), _shown(prior, weights, source)

    def read(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N T S"],
    ) -> tuple[Steps, Float[Array, "B L N T S"]]:
        """The steps and the weights, both with the prior p(a_i = j | y_<i, x)."""
        likelihoods = self._likelihoods(words, target, source, steps)
        every = jnp.ones(target.shape, bool)  # as in use, where nobody knows what is padding
        _, prior = self._forward(likelihoods, source, steps, every, total)
        return steps._replace(log_prior=prior), _shown(prior, weights, source)

    def _joint(
        self,
        likelihoods: Float[Array, "B T S"],
        source: Source,
        steps: Steps,
        real: Bool[Array, "B T"],
        over: Over,
    ) -> Float[Array, " B"]:
        together, _ = self._forward(likelihoods, source, steps, real, over)
        return together

    def _forward(
        self,
        likelihoods: Float[Array, "B T S"],
        source: Source,
        steps: Steps,
        real: Bool[Array, "B T"],
        over: Over,
    ) -> tuple[Float[Array, " B"], Float[Array, "B T S"]]:
        """The forward algorithm over known words."""
        of_steps = likelihoods, steps.log_weights, steps.moves
        return forward(*of_steps, source.projected.moves, real, over, self.forms.recomputed)


def _shown(
    log_prior: Float[Array, "B *T S"], weights: Float[Array, "B 1 1 *T S"], source: Source
) -> Float[Array, "B 1 1 *T S"]:
    """The prior in place of the weights of the first source; those of a second one stay."""
    prior = jnp.exp(log_prior)[:, None, None]
    rows, places = source.first_mask.shape
    first = source.first_mask.reshape(rows, *[1] * (prior.ndim - 2), places)
    return jnp.where(first, prior, weights)
