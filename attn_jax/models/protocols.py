"""What the parts of a model hand on, and what a cell, an encoder and a decoder promise.

B sentences, S source words, T target words, E features of a word vector, D of an annotation, F of
what the output layer reads, H units of a cell, G of its projected inputs, N heads, L layers that
attend. For parts of your own, each of which is a `flax.nnx.Module`. `rng`, a random key for each
sentence, is given in training alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.models.embeddings import Separate


class Summary(NamedTuple):
    """What the initial state of a recurrent decoder is computed from."""

    vector: Float[Array, "B Z"]
    states: tuple  # the last state of each layer of a one-directional recurrent encoder, else ()


class Encoded(NamedTuple):
    """What encoders make of a batch, for the decoder: of one source, or leaves in pairs, of two."""

    vectors: PyTree[Float[Array, "B S E"]]  # of the words
    annotations: PyTree[Float[Array, "B S D"]]
    mask: PyTree[Bool[Array, "B S"]]
    summary: Summary
    compared: Float[Array, "B S D"] | None = None  # with queries, if not the annotations

    def each(self) -> tuple["Encoded", ...]:
        """Each of two sources."""
        of_each = zip(self.vectors, self.annotations, self.mask, strict=True)
        return tuple(Encoded(*one, self.summary) for one in of_each)


class Source(NamedTuple):
    """A batch of encoded sentences, as decoders take it."""

    projected: PyTree  # what the decoder's `project` returns, such as `Attended`
    mask: PyTree[Bool[Array, "B S"]]  # a pair if each of two sources is attended to by itself
    summary: Summary
    vectors: PyTree[Float[Array, "B S E"]] = None  # of the words; of each source
    copies: Any = None  # of a `Copyable`, int [B, S]
    previous: Any = None  # the previous target words, int [B, *T]
    words: Separate | None = None  # with the output layer, for a decoder that reads it

    @property
    def first_mask(self) -> Bool[Array, "B S"]:
        """The mask of the first source; of all words if they stand in one row."""
        return jax.tree.leaves(self.mask)[0]


@runtime_checkable
class Cell(Protocol):
    """One layer of a recurrent stack.

    `gates` is G / H. The next state is like the first one: the same leaves, shapes and dtypes.
    """

    gates: int

    def __init__(self, features: int, units: int, *, rngs: nnx.Rngs): ...

    @property
    def input(self) -> Callable[[Float[Array, "*any E"]], Float[Array, "*any G"]]:
        """The inputs of all steps at once, projected; computed before the loop over steps."""
        ...

    def begin(self, hidden: Float[Array, "B H"]) -> PyTree[Float[Array, "B ..."]]:
        """The state whose output is `hidden`."""
        ...

    def output(self, state: PyTree[Float[Array, "B ..."]]) -> Float[Array, "B H"]:
        """The output of a state."""
        ...

    def __call__(
        self,
        state: PyTree[Float[Array, "B ..."]],
        projected: Float[Array, "B G"],
        hidden: Float[Array, "B H"],
    ) -> PyTree[Float[Array, "B ..."]]:
        """The next state.

        Args:
          state: the previous state.
          projected: the inputs of this step, as `input` returned them.
          hidden: what the recurrent product reads: the output of the previous state, after dropout
            if that is variational.
        """
        ...


@runtime_checkable
class Encoder(Protocol):
    """From word vectors to annotations. Padding changes nothing at real positions."""

    summary_size: int  # Z, features of the vector of the summary

    def __init__(self, config: Model, *, rngs: nnx.Rngs): ...

    def __call__(
        self,
        embeddings: Float[Array, "B S E"],
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B S D"], Summary]:
        """The annotations, and the summary from which a recurrent decoder starts, [B, Z].

        Args:
          embeddings: the word vectors.
          mask: False where there is padding.
          rng: a random key for each sentence, for dropout.
        """
        ...


@runtime_checkable
class Readout(Protocol):
    """From what a decoder has computed at some steps to the probabilities of words.

    `words` has the output layer. A readout of one's own is derived from
    `models.readouts.FromFeatures`, which computes them from a vector of features for each
    step; `models.marginal` sums them over positions.
    """

    size: int  # F, features of what the output layer reads; 0: there is none
    copies: bool  # whether it gives source words that the vocabulary lacks: then V is V + S

    def start(self, source: Source) -> PyTree:
        """What is carried from step to step in use, besides the state of the decoder."""
        ...

    def step(
        self,
        words: Separate,
        carried: PyTree,
        word: Int[Array, " B"],
        source: Source,
        steps: PyTree[Float[Array, "B ..."]],
        weights: Float[Array, "B L N S"],
    ) -> tuple[PyTree, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """One step in use: what is carried, the log-probabilities in nats, the weights.

        Args:
          words: the output layer.
          carried: from the previous step.
          word: the previous words.
          source: the encoded sentences.
          steps, weights: of this step, as the decoder returns them.
        """
        ...

    def read(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: PyTree[Float[Array, "B T ..."]],
        weights: Float[Array, "B L N T S"],
    ) -> tuple[PyTree[Float[Array, "B T ..."]], Float[Array, "B L N T S"]]:
        """All steps of known targets: what `log_probabilities` and `loss` take, and the weights."""
        ...

    def log_probabilities(
        self, words: Separate, source: Source, steps: PyTree[Float[Array, "B ..."]]
    ) -> Float[Array, "B *T V"]:
        """The log-probabilities of all words, in nats, at some or one of the steps of `read`."""
        ...

    def loss(
        self,
        words: Separate,
        target: Int[Array, "B T"],
        source: Source,
        steps: PyTree[Float[Array, "B T ..."]],
        label_smoothing: float,
    ) -> Float[Array, ""]:
        """The sum of the losses of the target words, in nats."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """From previous target words to what the probabilities of the next ones are computed from.

    All steps at once give the same as one step after another. A step depends on the source and on
    previous words only, and on no other sentence of the batch.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs): ...

    @property
    def readout(self) -> Readout:
        """It takes what `step` and `__call__` return beside the weights."""
        ...

    def project(self, encoded: Encoded) -> PyTree:
        """What is computed once per sentence, such as keys and values.

        Args:
          encoded: word vectors, annotations, masks and summary.
        """
        ...

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        ...

    def step(
        self, state: PyTree, embedding: Float[Array, "B E"], source: Source
    ) -> tuple[PyTree, PyTree[Float[Array, "B ..."]], Float[Array, "B L N S"]]:
        """One step in use: the next state, what the readout takes, [B, F] of most, and the weights.

        Args:
          state: of the previous step; the next one is like it.
          embedding: the vectors of the previous words.
          source: the encoded sentences; `projected` is what `project` returned.
        """
        ...

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> tuple[PyTree[Float[Array, "B T ..."]], Float[Array, "B L N T S"]]:
        """All steps of known targets: what the readout takes, [B, T, F] of most, and the weights.

        Args:
          embeddings: the vectors of the previous word at each step.
          source: the encoded sentences.
          rng: a random key for each sentence, for dropout and what attention does in training.
        """
        ...


@runtime_checkable
class AddsLoss(Protocol):
    """A decoder whose training has a loss besides that of the target words."""

    def added_loss(self, source: Source, target: Int[Array, "B T"]) -> Float[Array, ""]:
        """The sum of it over sentences."""
        ...


@runtime_checkable
class AttendsToItself(Protocol):
    """An encoder or a decoder in which words attend to words of the same sentence."""

    def self_weights(
        self, embeddings: Float[Array, "B T E"], known: Any
    ) -> Float[Array, "B L N T T"]:
        """How much word i attends to word j, in each of its layers and heads.

        Args:
          embeddings: of the words that it reads, as `__call__` takes them.
          known: what `__call__` takes next: the mask of an encoder, the source of a decoder.
        """
        ...
