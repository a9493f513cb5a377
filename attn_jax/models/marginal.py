"""The readout of exact hard attention: a sum over all alignments, which are latent variables.

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
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.kernels.memory import Held, by_parts
from attn_jax.kernels.output_loss import cross_entropy
from attn_jax.models.embeddings import Separate
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Source
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
    moves: PyTree[Float[Array, "B *T M"]]  # the part of the state in the scores of moves, or None
    noise: Float[Array, "B *T S"] | None = None  # in training, where positions are sampled
    # log Σ_y of the outputs at each position, where the decoder has needed them.
    normalizers: Float[Array, "B *T S"] | None = None


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


class Marginal(nnx.Module):
    """p(y_i) = Σ_j α_ij p(y_i | s_i, h_j): hard attention, independent of earlier positions.

    Each position is read as Luong's decoder reads a context: h̃_ij = tanh(W_c [h_j; s_i]), then the
    output layer.

    Paper: Wu, Shapiro and Cotterell 2018, section 3; Deng et al. 2018.
    Cost: S times the output layer, which training computes twice.
    """

    forms = FAST
    options: frozenset[str] = frozenset()
    copies = False
    positional = False  # depends on where words stand
    reads_weights = True  # α of attention

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        self.size = inputs

    def of_positions(self, contexts: Float[Array, "B S O"]) -> PyTree[Float[Array, "B S M"]]:
        """The part of the positions in the scores of moves: there are none."""
        return None

    def noise(
        self, rng: Key[Array, " B"] | None, like: Float[Array, "B *T S"]
    ) -> Float[Array, "B *T S"] | None:
        """What the loss draws positions with: it draws none."""
        return None

    def of_states(self, outputs: Float[Array, "B *T H"]) -> PyTree[Float[Array, "B *T M"]]:
        """The part of the states in the scores of moves: there are none."""
        return None

    def start(self, source: Source) -> PyTree:
        """What is carried from step to step: nothing."""
        return ()

    def step(
        self,
        words: Separate,
        carried: PyTree,
        word: Int[Array, " B"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N S"],
    ) -> tuple[PyTree, Float[Array, "B V"], Float[Array, "B L N S"]]:
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

        def of_part(steps: Steps) -> Float[Array, "B T V"]:
            logits = self._logits(words, self._places(source)[:, None], steps)
            return mixed(logits, jax.nn.logsumexp(logits, axis=-1), steps.log_prior)

        rows, *times, places = steps.log_prior.shape
        one_axis = rows, math.prod(times)
        flat = jax.tree.map(lambda leaf: leaf.reshape(*one_axis, leaf.shape[-1]), steps)
        found = by_parts(of_part, flat, self._at_once(words, rows, places))
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
        refuse_smoothing("a readout over positions", label_smoothing)
        return -self._maximised(words, target, source, steps).sum()

    def _maximised(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, " B"]:
        """log p(y | x)."""
        likelihoods = self._likelihoods(words, target, source, steps)
        return self._joint(likelihoods, source, steps, target != PAD, total)

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
        log p(y_i | s_i, h_j): Eisner 2016.
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
            return self._of_known(words, read[:, None], *part)

        read = self._places(source)
        at_once = self._at_once(words, *read.shape[:2])
        return by_parts(of_part, (steps, target), at_once)

    def _of_one(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        read: Float[Array, "B T F"],
        steps: Steps,
    ) -> Float[Array, "B T"]:
        """log p(y_i | s_i, c) of known words, for one context of each step, given as W_c c."""

        @self.forms.recomputed
        def of_part(part: tuple) -> Float[Array, "B T"]:
            read, *known = part
            return self._of_known(words, read[..., None, :], *known)[..., 0]

        return by_parts(of_part, (read, steps, target), self._at_once(words, len(read), 1))

    def _places(self, source: Source) -> Float[Array, "B S F"]:
        """W_c c_j of each position that may be read."""
        return source.projected.features

    def _of_known(
        self,
        words: Separate,
        read: Float[Array, "B _ P F"],
        steps: Steps,
        target: Int[Array, "B T"],
    ) -> Float[Array, "B T P"]:
        """log p(y_i | s_i, c) of known words, for each of the P contexts of a step."""
        logits = self._logits(words, read, steps)
        return -cross_entropy(logits, jnp.broadcast_to(target[..., None], logits.shape[:-1]))

    def _logits(
        self, words: Separate, read: Float[Array, "B _ P F"], steps: Steps
    ) -> Float[Array, "B T P V"]:
        """The outputs of the output layer for each of the contexts of a step, given as W_c c."""
        # h̃ = tanh(W_c [c; s_i]), after dropout.
        features = jnp.tanh(read + steps.of_states[..., None, :]) * steps.kept[..., None, :]
        matrix, bias = words.output_layer()
        # As rows, so that the derivative of the matrix is one plain product.
        rows = self.forms.product(features.reshape(-1, self.size), matrix) + bias
        return rows.reshape(*features.shape[:-1], -1)

    def _at_once(self, words: Separate, rows: int, places: int) -> int:
        """How many steps of a batch are computed at once."""
        return LOGITS.here() // (rows * places * words.target_size)


class ByMoves(Marginal):
    """What those have in common that score moves from position j by U [s_i; h_j] + b.

    Where one attends to depends on where one was. So there is no α, and no score.
    """

    reads_weights = False

    def __init__(self, config: Model, inputs: int, moves: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, rngs=rngs)
        _, read = config.values.sizes(config.annotation_size, config.embedding_size)
        self.moves_from = Linear(read, moves, use_bias=False, rngs=rngs)
        self.moves = Linear(config.hidden_size, moves, rngs=rngs)

    def of_positions(self, contexts: Float[Array, "B S O"]) -> Float[Array, "B S M"]:
        """The part of the positions that are left in the scores of moves."""
        return self.moves_from(contexts)

    def of_states(self, outputs: Float[Array, "B *T H"]) -> Float[Array, "B *T M"]:
        """The part of the states in the scores of moves."""
        return self.moves(outputs)


def refuse_smoothing(readout: str, label_smoothing: float) -> None:
    """Raises InputError if there is label smoothing."""
    if label_smoothing:
        raise InputError(
            f"{readout} has the likelihood of the target words alone, and none of the whole "
            "vocabulary that train.label_smoothing could spread: leave it out"
        )


def mixed(
    logits: Float[Array, "*any S V"],
    normalizers: Float[Array, "*any S"],
    log_prior: Float[Array, "*any S"],
) -> Float[Array, "*any V"]:
    """log Σ_j p(a = j) p(y | a = j), with `normalizers` the logarithms of the sums over words."""
    return jax.nn.logsumexp(logits + (log_prior - normalizers)[..., None], axis=-2)
