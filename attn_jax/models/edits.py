"""The readout of a transducer that copies, deletes, inserts and replaces: see `edit_paths`.

B sentences, S positions, P = S + 1 places of the pointer, T steps, F features that the output layer
reads.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from attn_jax.config import Model
from attn_jax.models.copying import DEAREST, over_words
from attn_jax.models.edit_paths import (
    Scores,
    ends_of,
    forward,
    inside_of,
    reached,
    same_words,
    shortest_edit,
    written,
)
from attn_jax.models.embeddings import Separate
from attn_jax.models.hidden_markov import first_place, shown
from attn_jax.models.marginal import LOW, ByMoves, Over, Steps, mixed, total
from attn_jax.models.protocols import Source
from attn_jax.tokens import BOS, PAD


class Actions(NamedTuple):
    """The log-probabilities of what is done at each place."""

    delete: Float[Array, "B *T P"]  # 0 behind the last word, where it is not possible
    write: Float[Array, "B *T P"]  # log (1 - p(delete))
    copy: Float[Array, "B *T P"]  # these three, if a word is written
    insert: Float[Array, "B *T P"]
    replace: Float[Array, "B *T P"]


class Belief(NamedTuple):
    """What a step hands to the next one, which knows the word that was chosen."""

    of_states: Float[Array, "B F"]
    moves: Float[Array, "B 4"]
    log_prior: Float[Array, "B P"]  # log p(the word is written at this place | y_<i, x)
    normalizers: Float[Array, "B P"]  # of the probabilities of words at each place


class Edits(ByMoves):
    """p(y) = Σ over all sequences of actions that write y: copy, delete, insert, replace.

    The actions at place k have probabilities softmax(U [s_i; h_k] + b), and a word that is inserted
    or replaces p(w | h̃_ik), h̃_ik = tanh(W_c [h_k; s_i]). Behind the last word, h is 0. The papers
    read each action into a state, and so search for the best actions; here states depend on the
    words alone, so that all actions that write them are summed over, in training too.

    Paper: Aharoni and Goldberg 2017; Makarov and Clematide 2018; the sum as in Yu, Buys and Blunsom
    2016.
    Cost: S times the output layer, which training computes twice; T S² for deletions.
    """

    copies = True
    positional = True

    def __init__(self, config: Model, inputs: int, *, rngs: nnx.Rngs):
        super().__init__(config, inputs, 4, rngs=rngs)

    def _places(self, source: Source) -> Float[Array, "B P F"]:
        """W_c h_k of each place: 0 behind the last word."""
        features = jnp.where(source.first_mask[..., None], source.projected.features, 0)
        return jnp.pad(features, ((0, 0), (0, 1), (0, 0)))

    def _actions(self, source: Source, moves: Float[Array, "B *T 4"]) -> Actions:
        of_positions = source.projected.own
        rows, places, _ = of_positions.shape
        of_each = of_positions.reshape(rows, *[1] * (moves.ndim - 2), places, 4)
        scores = jnp.pad(
            jax.nn.log_softmax(moves[..., None, :] + of_each),
            [(0, 0)] * (moves.ndim - 1) + [(0, 1), (0, 0)],
        )
        delete, *others = jnp.moveaxis(scores, -1, 0)
        write = jax.nn.logsumexp(jnp.stack(others), axis=0)
        # Behind the last word, words are inserted.
        inside = inside_of(source).reshape(rows, *[1] * (moves.ndim - 2), places + 1)
        usual = delete, write, *(other - write for other in others)
        behind = 0.0, 0.0, LOW, 0.0, LOW
        pairs = zip(usual, behind, strict=True)
        return Actions(*(jnp.where(inside, one, other) for one, other in pairs))

    def _scores(
        self,
        actions: Actions,
        of_words: Float[Array, "B *T P"],
        word: Int[Array, " B *T"],
        source: Source,
        over: Over,
    ) -> Scores:
        """What it is worth to write known words at each place.

        Args:
          actions: at these steps.
          of_words: log p(w | h̃_ik) of the words.
          word: the words.
          source: the encoded sentences.
          over: `total` or `best`.
        """
        ways = jnp.stack(
            [
                jnp.where(same_words(source, word), actions.copy, LOW),
                actions.replace + of_words,
            ]
        )
        return Scores(actions.delete, actions.write, actions.insert + of_words, over(ways, 0))

    def _of_target(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        over: Over,
    ) -> Scores:
        known = target < words.target_size
        likelihoods = self._likelihoods(words, jnp.where(known, target, 0), source, steps)
        of_words = jnp.where(known[..., None], likelihoods, -DEAREST)
        return self._scores(self._actions(source, steps.moves), of_words, target, source, over)

    def _maximised(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, " B"]:
        scores = self._of_target(words, target, source, steps, total)
        together, _ = forward(scores, ends_of(source), target != PAD, total)
        return together

    def alignment(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        over: Over,
    ) -> Float[Array, "B T S"]:
        """p(word i is written at position j | y, x); with `best` 1 on the best actions.

        The rest of a row is the probability that it is written behind the last word.
        """
        scores = self._of_target(words, target, source, steps, over)

        def joint(write: Float[Array, "B T P"]) -> Float[Array, ""]:
            known = scores._replace(write=write)
            return forward(known, ends_of(source), target != PAD, over)[0].sum()

        return jax.grad(joint)(scores.write)[..., :-1]

    def read(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N T S"],
    ) -> tuple[Steps, Float[Array, "B L N T S"]]:
        """The steps and the weights, both with where words are written, before they are known."""
        scores = self._of_target(words, target, source, steps, total)
        every = jnp.ones(target.shape, bool)
        _, prior = forward(scores, ends_of(source), every, total)
        return steps._replace(log_prior=prior), shown(prior[..., :-1], weights, source)

    def log_probabilities(
        self, words: Separate, source: Source, steps: Steps
    ) -> Float[Array, "B *T V+S"]:
        """The log-probabilities of all words, in nats; -∞ of those that cannot be written."""
        generates, copied = self._shares(source, steps)
        generated = super().log_probabilities(words, source, steps._replace(log_prior=generates))
        return over_words(generated, copied, source)

    def _shares(
        self, source: Source, steps: Steps
    ) -> tuple[Float[Array, "B *T P"], Float[Array, "B *T S"]]:
        """The log-probabilities that a word of the vocabulary, and that x_k is written at k."""
        actions = self._actions(source, steps.moves)
        generates = steps.log_prior + jnp.logaddexp(actions.insert, actions.replace)
        return generates, (steps.log_prior + actions.copy)[..., :-1]

    def start(self, source: Source) -> Belief:
        """The belief before the first step, which `step` does not read."""
        read = self._places(source)
        nowhere = jnp.zeros(read.shape[:2])
        return Belief(jnp.zeros_like(read[:, 0]), jnp.zeros((len(read), 4)), nowhere, nowhere)

    def step(
        self,
        words: Separate,
        carried: Belief,
        word: Int[Array, " B"],
        source: Source,
        steps: Steps,
        weights: Float[Array, "B L N S"],
    ) -> tuple[Belief, Float[Array, "B V+S"], Float[Array, "B L N S"]]:
        """The next belief, the log-probabilities of the next word, and where it is written."""
        # Where the pointer is, now that the word is known.
        read, (matrix, bias) = self._places(source), words.output_layer()
        known = word < words.target_size
        index = jnp.where(known, word, 0)
        features = jnp.tanh(read + carried.of_states[:, None])
        of_word = jnp.einsum("BPF,BF->BP", features, matrix.T[index]) + bias[index][:, None]
        of_word = jnp.where(known[:, None], of_word - carried.normalizers, -DEAREST)
        actions = self._actions(source, carried.moves)
        scores = self._scores(actions, of_word, word, source, total)
        pointer = jax.nn.log_softmax(written(carried.log_prior, scores, total))
        pointer = jnp.where((word == BOS)[:, None], first_place(pointer), pointer)

        actions = self._actions(source, steps.moves)
        prior = reached(pointer, actions.delete, ends_of(source), total) + actions.write
        logits = self._logits(words, read[:, None], jax.tree.map(lambda leaf: leaf[:, None], steps))
        normalizers = jax.nn.logsumexp(logits[:, 0], axis=-1)
        generates, copied = self._shares(source, steps._replace(log_prior=prior))
        generated = mixed(logits[:, 0], normalizers, generates)
        belief = Belief(steps.of_states, steps.moves, prior, normalizers)
        return belief, over_words(generated, copied, source), shown(prior[:, :-1], weights, source)


class EditsOracle(Edits):
    """The same, trained by -log p of the actions of the shortest edit from the source to y.

    Of several shortest edits it is one: each word is written at the first place that is possible,
    and copied if it can be. Deletions, insertions and replacements cost 1, and copies nothing.

    Paper: Makarov and Clematide 2018, without exploration of other actions; Aharoni and Goldberg
    2017, whose actions are those of an aligner.
    Cost: in training the output layer once; in use S times.
    """

    def _maximised(
        self, words: Separate, target: Int[Array, "B T"], source: Source, steps: Steps
    ) -> Float[Array, " B"]:
        path = shortest_edit(target, source)
        actions = self._actions(source, steps.moves)
        places = jnp.argmax(path.stay + path.go, axis=-1)[..., None]
        read = jnp.take_along_axis(self._places(source), places, axis=1)
        known = target < words.target_size
        of_one = self._of_one(words, jnp.where(known, target, 0), read, steps)
        of_one = jnp.where(known, of_one, -DEAREST)[..., None]
        going = jnp.where(same_words(source, target), actions.copy, actions.replace + of_one)
        taken = Scores(actions.delete, actions.write, actions.insert + of_one, going)
        each = jax.tree.map(lambda one, score: jnp.where(one > 0, score, 0), path, taken)
        return jnp.stack(each).sum(axis=(0, 2, 3))
