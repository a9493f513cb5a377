"""Hard attention whose positions are a hidden Markov model: all but the transitions.

The forward algorithm sums over all alignments. In use, each step hands what it believes of its
position to the next one, which knows the word that was chosen.

B sentences, S positions, T steps, M moves.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.models.embeddings import Separate
from attn_jax.models.marginal import LOW, Marginal, Over, Steps, mixed, total
from attn_jax.models.protocols import Source


def forward(
    likelihoods: Float[Array, "B T S"],
    known: PyTree[Float[Array, "B T ..."]],
    transitions: Callable[[PyTree[Float[Array, "B ..."]]], Float[Array, "B S S"]],
    real: Bool[Array, "B T"],
    over: Over,
    recomputed: Callable,
) -> tuple[Float[Array, " B"], Float[Array, "B T S"]]:
    """The forward algorithm: f_i(k) = Σ_j f_{i-1}(j) p(a_i = k | a_{i-1} = j) p(y_i | s_i, h_k).

    So f_i(k) = p(y_≤i, a_i = k | x). Rabiner 1989, section III.A; with `best` for `over`, the
    Viterbi algorithm, section III.B.

    Args:
      likelihoods: log p(y_i | s_i, h_k).
      known: what is known of the steps.
      transitions: log p(a_i = k | a_{i-1} = j), from what is known of a step.
      real: False at steps of padding, which leave f as it is.
      over: how alignments are put together, `total` or `best`.
      recomputed: of `Forms`.

    Returns:
      log p(y | x), or that of y with the best alignment; and the prior, log p(a_i = k | y_<i, x).
    """

    @recomputed
    def advance(before: Array, inputs: tuple) -> tuple[Array, Array]:
        likelihoods, known, real = inputs
        # One move, before the word is seen.
        predicted = over(before[..., None] + transitions(known), 1)
        after = jnp.where(real[:, None], predicted + likelihoods, before)
        # `predicted` is p(y_<i, a_i = k), and the sum of `before` is p(y_<i): their quotient is the
        # prior.
        return after, predicted - over(before, 1)[:, None]

    by_step = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (likelihoods, known, real))
    last, prior = jax.lax.scan(advance, first_place(likelihoods[:, 0]), by_step)
    return over(last, 1), jnp.swapaxes(prior, 0, 1)


def first_place(like: Float[Array, "B S"]) -> Float[Array, "B S"]:
    """log p(a_0 = j): the alignment comes from the first position."""
    places = jnp.arange(like.shape[-1])
    return jnp.broadcast_to(jnp.where(places == 0, 0.0, LOW), like.shape)


class Belief(NamedTuple):
    """What a step of `HiddenMarkov` hands to the next one, which knows the word that was chosen."""

    of_states: Float[Array, "B F"]
    log_prior: Float[Array, "B S"]  # log p(a_i = j | y_<i, x)
    normalizers: Float[Array, "B S"]  # of the probabilities of words at each position


class HiddenMarkov(Marginal):
    """p(y, a) = Π_i p(a_i | a_{i-1}, y_<i, x) p(y_i | s_i, h_{a_i}).

    Kinds differ in their transitions, and in nothing else. a_0 is the first position, as in the
    paper's program, where it is a mark before the first word; here it is the first word.
    """

    positional = True

    @abc.abstractmethod
    def scores(
        self,
        log_weights: Float[Array, "B S"],
        moves: PyTree[Float[Array, "B S M"]],
        shift: Int[Array, "S S"],
    ) -> Float[Array, "B S S"]:
        """log p(a_i = k | a_{i-1} = j) of each j over k, up to a number; `LOW` where it is 0.

        Args:
          log_weights: log α_ik.
          moves: the scores of moves from each j, u, or None.
          shift: k - j.
        """

    def transitions(
        self, log_weights: Float[Array, "B S"], moves: PyTree[Float[Array, "B S M"]]
    ) -> Float[Array, "B S S"]:
        """log p(a_i = k | a_{i-1} = j) of each j over k.

        No position has a probability whose weight is 0. Where none is left that j may move to, the
        alignment stays at j.
        """
        places = jnp.arange(log_weights.shape[-1])
        shift = places - places[:, None]
        scores = self.scores(log_weights, moves, shift)
        reached = (scores > LOW / 2) & (log_weights > LOW / 2)[:, None]
        stays = ~reached.any(axis=-1, keepdims=True) & (shift == 0)
        scores = jnp.where(reached, scores, jnp.where(stays, 0, LOW))
        return jnp.where(reached | stays, jax.nn.log_softmax(scores), LOW)

    def _between(self, source: Source) -> Callable:
        """The transitions of a step, from its part of `Steps`."""

        def transitions(known: tuple) -> Float[Array, "B S S"]:
            log_weights, of_states = known
            of_positions = source.projected.own
            moves = jax.tree.map(lambda s, h: s[:, None] + h, of_states, of_positions)
            return self.transitions(log_weights, moves)

        return transitions

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
        transitions = self._between(source)((steps.log_weights, steps.moves))
        prior = total(filtered[..., None] + transitions, 1)

        now = jax.tree.map(lambda leaf: leaf[:, None], steps)
        logits = self._logits(words, source.projected.features[:, None], now)[:, 0]
        normalizers = jax.nn.logsumexp(logits, axis=-1)
        belief = Belief(steps.of_states, prior, normalizers)
        return belief, mixed(logits, normalizers, prior), shown(prior, weights, source)

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
        return steps._replace(log_prior=prior), shown(prior, weights, source)

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
        known = steps.log_weights, steps.moves
        moving = self._between(source)
        return forward(likelihoods, known, moving, real, over, self.forms.recomputed)


def shown(
    log_prior: Float[Array, "B *T S"], weights: Float[Array, "B 1 1 *T S"], source: Source
) -> Float[Array, "B 1 1 *T S"]:
    """The prior in place of the weights of the first source; those of a second one stay."""
    prior = jnp.exp(log_prior)[:, None, None]
    rows, places = source.first_mask.shape
    first = source.first_mask.reshape(rows, *[1] * (prior.ndim - 2), places)
    return jnp.where(first, prior, weights)
