"""Readouts over positions: exact hard attention, summed over all alignments.

A step attends to one position a_i, which is a latent variable, instead of to a mean of all:

    p(y_i | y_<i, x) = Σ_j p(a_i = j | y_<i, x) p(y_i | s_i, h_j)

The sum is over the probabilities of words, and so the output layer reads each position: its cost is
S times that of another readout. What is held of it at once is bounded, see `by_parts`.

B sentences, S positions, T steps, F features that the output layer reads, M moves.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.kernels.held import Held, by_parts
from attn_jax.kernels.output_loss import cross_entropy
from attn_jax.models.embeddings import Separate
from attn_jax.models.linear import Linear
from attn_jax.models.source import Source
from attn_jax.tokens import PAD

# Outputs of the output layer that are held at once; at least those of one step of a batch.
LOGITS = Held(cpu=2**21, other=2**26)
LOW = -1e30  # log 0: finite, since the derivative of what holds an infinity would be NaN


class Steps(NamedTuple):
    """What the probabilities of some steps are computed from."""

    of_states: Float[Array, "B *T F"]  # W_c s_i, the part of the state
    kept: Float[Array, "B *T F"]  # the factors of dropout, the same at all positions
    log_weights: Float[Array, "B *T S"]  # log α_ij, `LOW` where α_ij = 0
    log_prior: Float[Array, "B *T S"]  # log p(a_i = j | y_<i, x)
    moves: Float[Array, "B *T M"]  # the part of the state in the scores of moves


def logarithm(weights: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The logarithm, which is `LOW` and has no derivative where a weight is 0."""
    positive = weights > 0
    return jnp.where(positive, jnp.log(jnp.where(positive, weights, 1)), LOW)


def total(values: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """log Σ exp: over all alignments."""
    return jax.nn.logsumexp(values, axis=axis)


def best(values: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """The maximum: of the best alignment. Of equal values, only the first has a derivative."""
    first = jnp.argmax(values, axis=axis, keepdims=True)
    return jnp.take_along_axis(values, first, axis=axis).squeeze(axis)


Over = Callable[[Array, int], Array]  # `total` or `best`


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
    """The forward algorithm: α_i(k) = Σ_j α_{i-1}(j) p(a_i = k | a_{i-1} = j) p(y_i | s_i, h_k).

    Rabiner 1989, section III.A; with `best` for `over`, the Viterbi algorithm, section III.B.

    Args:
      likelihoods: log p(y_i | s_i, h_k).
      log_weights, moves: of the steps; `moves_from`: of the positions.
      real: False at steps of padding, which leave α as it is.
      over: how alignments are put together, `total` or `best`.
      recomputed: of `Forms`.

    Returns:
      log p(y | x), or that of y with the best alignment; and the prior, log p(a_i = k | y_<i, x).
    """

    @recomputed
    def advance(before: Array, inputs: tuple) -> tuple[Array, Array]:
        likelihoods, log_weights, moves, real = inputs
        transitions = log_transitions(log_weights, moves[:, None] + moves_from)
        predicted = over(before[..., None] + transitions, 1)
        after = jnp.where(real[:, None], predicted + likelihoods, before)
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


class Marginal(nnx.Module):
    """Hard attention of order 0: p(a_i = j | y_<i, x) = α_ij, whatever the earlier alignments.

    Wu, Shapiro and Cotterell 2018, section 3; Deng et al. 2018, section 3.1. Each position is read
    as Luong's decoder reads a context: h̃_ij = tanh(W_c [h_j; s_i]), then the output layer.
    """

    forms = FAST
    latent = True
    options: frozenset[str] = frozenset()

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        self.size = inputs

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S M"]:
        """The part of the positions in the scores of moves: there are no moves."""
        return jnp.zeros((*contexts.shape[:-1], 0))

    def of_states(self, outputs: Float[Array, "B *T H"]) -> Float[Array, "B *T M"]:
        """The part of the states in the scores of moves: there are no moves."""
        return jnp.zeros((*outputs.shape[:-1], 0))

    def start(self, source: Source) -> tuple:
        """What is carried from step to step: nothing."""
        return ()

    def step(
        self,
        words: Separate,
        carried: tuple,
        word: Int[Array, " B"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N S"],
    ) -> tuple[tuple, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """What is carried, the log-probabilities of the next word, and the prior."""
        return carried, self.log_probabilities(words, source, steps), weights

    def read(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N T S"],
    ) -> tuple[Steps, Float[Array, "B L N T S"]]:
        """The steps and the weights, both with the prior."""
        return steps, weights

    def log_probabilities(
        self, words: Separate, source: Source, steps: Steps
    ) -> Float[Array, "B *T V"]:
        """log Σ_j p(a_i = j | y_<i, x) p(y_i | s_i, h_j) of all words, in nats."""

        def mixed(steps: Steps) -> Float[Array, "B T V"]:
            logits = self._logits(words, source, steps)
            return _mixed(logits, jax.nn.logsumexp(logits, axis=-1), steps.log_prior)

        rows, *times, places = steps.log_prior.shape
        one_axis = rows, math.prod(times)
        flat = jax.tree.map(lambda leaf: leaf.reshape(*one_axis, leaf.shape[-1]), steps)
        found = by_parts(mixed, flat, self._at_once(words, rows, places))
        return found.reshape(rows, *times, -1)

    def loss(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """-log p(y | x) of all sentences, in nats.

        Raises:
          InputError: there is label smoothing.
        """
        if label_smoothing:
            raise InputError(
                "a readout over positions has the likelihood of the target words alone, and none "
                "of the whole vocabulary that train.label_smoothing could spread: leave it out"
            )
        likelihoods = self._likelihoods(words, target, source, steps)
        return -self._joint(likelihoods, source, steps, target != PAD, total).sum()

    def alignment(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        over: Over,
    ) -> Float[Array, "B T S"]:
        """p(a_i = j | y, x), or with `best` 1 on the most probable alignment and 0 elsewhere.

        It is the derivative of the logarithm of the sum, or of the maximum, with respect to
        log p(y_i | s_i, h_j): Darwiche 2003, section 4; Eisner 2016.
        """

        def joint(likelihoods: Float[Array, "B T S"]) -> Float[Array, ""]:
            return self._joint(likelihoods, source, steps, target != PAD, over).sum()

        return jax.grad(joint)(self._likelihoods(words, target, source, steps))

    def _joint(
        self,
        likelihoods: Float[Array, "B T S"],
        source: Source,
        steps: Steps,
        real: Bool[Array, "B T"],
        over: Over,
    ) -> Float[Array, " B"]:
        """log p(y | x), or that of y with the best alignment."""
        return over(steps.log_weights + likelihoods, -1).sum(axis=1, where=real)

    def _likelihoods(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, "B T S"]:
        """log p(y_i | s_i, h_j) of known words at each position, of a few steps at a time."""

        @self.forms.recomputed
        def of_part(part: tuple[Steps, Int[Array, "B T"]]) -> Float[Array, "B T S"]:
            steps, target = part
            logits = self._logits(words, source, steps)
            return -cross_entropy(logits, jnp.broadcast_to(target[..., None], logits.shape[:-1]))

        rows, _, places = steps.log_weights.shape
        return by_parts(of_part, (steps, target), self._at_once(words, rows, places))

    def _logits(self, words: Separate, source: Source, steps: Steps) -> Float[Array, "B T S V"]:
        """The outputs of the output layer at each position."""
        features = self._features(source, steps)
        matrix, bias = words.output_layer()
        # As rows, so that the derivative of the matrix is one plain product.
        rows = self.forms.product(features.reshape(-1, self.size), matrix) + bias
        return rows.reshape(*features.shape[:-1], -1)

    def _features(self, source: Source, steps: Steps) -> Float[Array, "B T S F"]:
        """h̃_ij = tanh(W_c [h_j; s_i]), after dropout."""
        of_positions = source.projected.features[:, None]
        both = jnp.tanh(of_positions + steps.of_states[..., None, :])
        return both * steps.kept[..., None, :]

    def _at_once(self, words: Separate, rows: int, places: int) -> int:
        """How many steps of a batch are computed at once."""
        return LOGITS.here() // (rows * places * words.target_size)


def _mixed(
    logits: Float[Array, "*any S V"],
    normalizers: Float[Array, "*any S"],
    log_prior: Float[Array, "*any S"],
) -> Float[Array, "*any V"]:
    """log Σ_j p(a = j) p(y | a = j), with `normalizers` the logarithms of the sums over words."""
    return jax.nn.logsumexp(logits + (log_prior - normalizers)[..., None], axis=-2)


class Belief(NamedTuple):
    """What a step of `Monotonic` hands to the next one, which knows the word that was chosen."""

    of_states: Float[Array, "B F"]
    log_prior: Float[Array, "B S"]  # log p(a_i = j | y_<i, x)
    normalizers: Float[Array, "B S"]  # of the probabilities of words at each position


class Monotonic(Marginal):
    """Hard monotonic attention of order 1, a hidden Markov model that never goes back.

    p(a_i = k | a_{i-1} = j, y_<i, x) ∝ 1{k ≥ j} α_ik exp(u_{k-j}),  u = U [c_j; s_i] + b

    Wu and Cotterell 2019, sections 3 and 4. Without u, it is their model 0-mono; theirs of order 1
    has exp(u) without α, for moves of at most M - 1 positions. Here longer ones have the score of
    the longest. a_0 is the first position.
    """

    MOVES = 6  # M, of 0 to 4 positions and of 5 or more

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        self.moves_from = Linear(config.annotation_size, self.MOVES, use_bias=False, rngs=rngs)
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
        carried: Belief,
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
        return belief, _mixed(logits, normalizers, prior), jnp.exp(prior)[:, None, None]

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
        return steps._replace(log_prior=prior), jnp.exp(prior)[:, None, None]

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
