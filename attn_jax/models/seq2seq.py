"""The encoder-decoder: embeddings, an encoder, a decoder with attention, an output layer.

It answers in log-probabilities or with a loss; how it computes them is known in this room alone.

The model is a pytree of its parameters, which `jax.jit`, `jax.grad` and optax accept directly. It
is differentiable in reverse mode, to any order; in forward mode (`jax.jvp`) on plain forms, which
`with_forms(model, PLAIN)` gives it.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.scores import Last, Mean
from attn_jax.attention.sources import Combined
from attn_jax.attention.steps import Attended
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import Forms
from attn_jax.models.attention import Attention
from attn_jax.models.blocks import SelfAttention
from attn_jax.models.choices import find_decoder, find_encoder
from attn_jax.models.embeddings import make_embeddings
from attn_jax.models.initializations import initialized
from attn_jax.models.marginal import Marginal, Over, best, total
from attn_jax.models.posterior import Posterior
from attn_jax.models.protocols import AttendsToItself, Encoded, Source
from attn_jax.models.randomness import split
from attn_jax.models.second_source import make_second
from attn_jax.tokens import BOS, PAD, UNK, Copyable, ids_of


class Reading(NamedTuple):
    """What a model has made of known targets; what `steps` are depends on the model."""

    steps: PyTree  # what the probabilities of each step are computed from, leaves [B, T, ...]
    source: Source
    weights: PyTree[Float[Array, "B L N T S"]]  # of each layer and head; in training, see `Weighed`


class SelfWeights(NamedTuple):
    """What words attend to in their own sentence; None of an encoder or decoder that is no such."""

    encoder: Float[Array, "*B L N S S"] | None
    decoder: Float[Array, "*B L N T T"] | None  # of a step: the words read up to it, `BOS` first


class Seq2Seq(nnx.Module):
    """An encoder-decoder with any attention mechanism.

    Args:
      config: its parts and sizes.
      source_size: words in the source vocabulary, or in those of two sources.
      target_size: V, words in the target vocabulary.
      rngs: for the initial parameters.

    Raises:
      InputError: an option is unknown, or options cannot be combined.
    """

    def __init__(
        self, config: Model, source_size: int | Sequence[int], target_size: int, *, rngs: nnx.Rngs
    ):
        encoder, decoder = find_encoder(config), find_decoder(config)
        parts = *config.score.parts(), *config.sources.parts()
        if config.encoder == "backward" and any(isinstance(part, Last) for part in parts):
            raise InputError(
                "the score `last` attends to the last word, where a backward encoder has read "
                "nothing else yet: give model.encoder=unidirectional or bidirectional"
            )
        sizes = (source_size,) if isinstance(source_size, int) else tuple(source_size)
        if len(sizes) != config.sources.count:
            raise InputError(
                f"model.sources={config.sources.brief()} is for {config.sources.count} source "
                f"vocabularies, got {len(sizes)}"
            )
        self.attends_apart = isinstance(config.sources, Combined)  # to each of two sources
        # A control's weights do not depend on the words.
        self.is_control = config.score.is_control
        # Each part has its own key, so that its choice does not change the parameters of others.
        parts = [nnx.Rngs(rng) for rng in jax.random.split(rngs.params(), 3)]
        self.encoder = encoder(config, rngs=parts[0])
        self.second = make_second(config, encoder, *sizes, rngs=rngs) if len(sizes) == 2 else None
        summary_size = self.encoder.summary_size
        if self.second is not None:
            summary_size += self.second.encoder.summary_size
        self.decoder = decoder(config, summary_size, rngs=parts[1])
        features = self.decoder.readout.size
        self.words = make_embeddings(config, sizes[0], target_size, features, rngs=parts[2])

    @property
    def source_sizes(self) -> tuple[int, ...]:
        """The words in the vocabulary of each source."""
        first = self.words.source_size
        return (first,) if self.second is None else (first, self.second.size)

    @property
    def target_size(self) -> int:
        """The words in the target vocabulary, V."""
        return self.words.target_size

    @property
    def heads(self) -> int:
        """The number of heads that attend to the source, over all layers; 1 if none is found."""
        shapes = [attention.projections.shape for attention in self.attentions]
        return sum(heads * groups for heads, groups in shapes) or 1

    @property
    def weights_are_non_negative(self) -> bool:
        """Whether no weight is below 0, as those of some normalizers, and mixed ones, may be."""
        return all(
            attention.mixing.non_negative and attention.mechanism.normalizer.non_negative
            for attention in self.attentions
        )

    @property
    def attentions(self) -> list[Attention]:
        """The modules that attend to the source; none if a decoder of the user's own has others."""
        return [module for _, module in nnx.iter_modules(self) if isinstance(module, Attention)]

    def vectors(self, source: Int[Array, "B S"]) -> Float[Array, "B S E"]:
        """The vectors of the words of the only source, which `read` also takes in their place."""
        assert self.second is None
        return self.words.source_vectors(source)

    def encode(
        self,
        source: Int[Array, "B S"] | Copyable,
        rng: Key[Array, " B"] | None = None,
        vectors: Float[Array, "B S E"] | None = None,
    ) -> Source:
        """Encodes source sentences, padded with `PAD`. `rng` turns on dropout.

        The words of a second source follow those of the first: see `models.second_source`. Of a
        single source, `vectors` may be given in place of those of its words.
        """
        copies = source.copies if isinstance(source, Copyable) else None
        if self.copies and copies is None:
            raise InputError("a model that copies words takes sources as attn_jax.tokens.Copyable")
        if self.second is None:
            words = self.first_source(source)
            vectors = self.vectors(words) if vectors is None else vectors
            encoded = self._encode(vectors, words != PAD, rng)
        else:
            rng_first, rng_second = split(rng, 2)
            words = self.first_source(source)
            first = self._encode(self.words.source_vectors(words), words != PAD, rng_first)
            encoded = self.second.joined(first, self.second.encode(ids_of(source), rng_second))
        projected = self.decoder.project(encoded)
        return Source(projected, encoded.mask, encoded.summary, encoded.vectors, copies)

    def _encode(
        self,
        vectors: Float[Array, "B S E"],
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None,
    ) -> Encoded:
        annotations, summary = self.encoder(vectors, mask, rng)
        return Encoded(vectors, annotations, mask, summary)

    def first_source(self, source: Int[Array, "B S"] | Copyable) -> Int[Array, "B S"]:
        """The words of the first source alone."""
        words = ids_of(source)
        return words if self.second is None else self.second.first(words)

    def _after(
        self, words: Int[Array, " B *T"], source: Source
    ) -> tuple[Float[Array, "B *T E"], Source]:
        """The vectors of previous target words, and the source with these words.

        Words that are copied have the vector of `UNK`.
        """
        source = source._replace(previous=words)
        if isinstance(self.decoder.readout, Posterior):
            source = source._replace(words=self.words)
        if self.copies:
            words = jnp.where(words < self.target_size, words, UNK)
        return self.words.target_vectors(words), source

    def read(
        self,
        source: Int[Array, "B S"] | Copyable,
        target: Int[Array, "B T"],
        rng: Key[Array, " B"] | None = None,
        vectors: Float[Array, "B S E"] | None = None,
    ) -> Reading:
        """Reads known targets, for `log_probabilities`, `loss` and the weights of each head.

        Args:
          source: source sentences, padded with `PAD`.
          target: target sentences, each ending with `EOS`.
          rng: for training: a random key for each sentence, as `by_row` makes them from one key.
            Turns on dropout and what attention does only in training. Without it, the weights of
            `monotonic` and `mocha` are hard and have no gradient.
          vectors: in place of those of the source words, of a model of one source; for derivatives.
        """
        rng_encoder, rng_decoder = split(rng, 2)
        before = _before(target)
        previous, encoded = self._after(before, self.encode(source, rng_encoder, vectors))
        made = self.decoder(previous, encoded, rng_decoder)
        steps, weights = self.decoder.readout.read(self.words, target, encoded, *made)
        # Without parameters: what is read is of the batch alone.
        return Reading(steps, encoded._replace(words=None), weights)

    def log_probabilities(self, steps: PyTree, source: Source) -> Float[Array, "B *T V"]:
        """The log-probabilities of all words, in nats, at some steps of a `Reading`.

        Args:
          steps: the `steps` of a reading, or those of a part of its steps, leaves [B, *T, ...]. All
            T at once take B T V numbers.
          source: of the reading.
        """
        return self.decoder.readout.log_probabilities(self.words, source, steps)

    def loss(
        self, reading: Reading, target: Int[Array, "B T"], label_smoothing: float = 0.0
    ) -> Float[Array, ""]:
        """The sum of the cross-entropies of the target tokens, in nats.

        Never holds the probabilities of all tokens at once.

        Args:
          reading: of these targets.
          target: the same sentences; `PAD` is not counted.
          label_smoothing: the share of the probability that the whole vocabulary gets.
        """
        known = target, reading.source, reading.steps
        return self.decoder.readout.loss(self.words, *known, label_smoothing)

    def value_sizes(self, source: Source) -> Float[Array, "B L N S"] | None:
        """The length of what each head of each layer sums of each position.

        None if the decoder sums no values as such: where each of two sources is attended to by
        itself, where positions are read one by one, or with attention of the user's own.
        """
        if self.attends_apart:
            return None
        parts = jax.tree.leaves(source.projected, is_leaf=_is_summed)
        if not all(map(_is_summed, parts)) or len(parts) != len(self.attentions):
            return None
        each = zip(self.attentions, parts, strict=True)
        sizes = [attention.value_sizes(of_layer) for attention, of_layer in each]
        return jnp.stack(sizes, axis=1)

    def self_weights(
        self, source: Int[Array, "B S"] | Copyable, target: Int[Array, "B T"]
    ) -> SelfWeights:
        """The weights of self-attention when known targets are read, as `read` takes them.

        Computed beside the passes that train and translate, which never hold them. Where there are
        two sources in a row, each attends to itself alone.
        """
        of_encoder = of_decoder = None
        if isinstance(self.encoder, AttendsToItself):
            words = self.first_source(source)
            of_encoder = self.encoder.self_weights(self.words.source_vectors(words), words != PAD)
            if self.second is not None:
                of_encoder = self.second.self_weights(ids_of(source), of_encoder)
        if isinstance(self.decoder, AttendsToItself):
            of_decoder = self.decoder.self_weights(
                *self._after(_before(target), self.encode(source))
            )
        return SelfWeights(of_encoder, of_decoder)

    @property
    def self_heads(self) -> int:
        """The number of heads of self-attention, over all layers of the encoder and decoder."""
        modules = (module for _, module in nnx.iter_modules(self))
        return sum(module.heads for module in modules if isinstance(module, SelfAttention))

    @property
    def copies(self) -> bool:
        """Whether it takes sources as `Copyable`, and gives the words that these have more."""
        return self.decoder.readout.copies

    @property
    def sums_over_alignments(self) -> bool:
        """Whether alignments are latent variables, which have a posterior."""
        return isinstance(self.decoder.readout, Marginal)

    def posterior(self, reading: Reading, target: Int[Array, "B T"]) -> Float[Array, "B T S"]:
        """p(a_i = j | y, x), 0 for padding, of a model that sums over alignments."""
        return self._alignment(reading, target, total)

    def best_alignment(self, reading: Reading, target: Int[Array, "B T"]) -> Float[Array, "B T S"]:
        """1 on the most probable alignment, else 0, of a model that sums over alignments."""
        return self._alignment(reading, target, best)

    def _alignment(
        self, reading: Reading, target: Int[Array, "B T"], over: Over
    ) -> Float[Array, "B T S"]:
        readout = self.decoder.readout
        if not isinstance(readout, Marginal):
            raise InputError("this model sums over no alignments: give model.readout=marginal")
        return readout.alignment(self.words, target, reading.source, reading.steps, over)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        return self.decoder.start(source, length), self.decoder.readout.start(source)

    def step(
        self, state: PyTree, word: Int[Array, " B"], source: Source
    ) -> tuple[PyTree, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The next state, the log-probabilities of the next word in nats, and the weights.

        Args:
          state: of the decoder and of its readout.
          word: the previous word of each sentence; `BOS` at the first step.
          source: the encoded sentences.
        """
        state, carried = state
        previous, source = self._after(word, source)
        state, *made = self.decoder.step(state, previous, source)
        carried, log_probabilities, weights = self.decoder.readout.step(
            self.words, carried, word, source, *made
        )
        return (state, carried), log_probabilities, weights


def _before(target: Int[Array, "B T"]) -> Int[Array, "B T"]:
    """The word before each, `BOS` before the first."""
    return jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)


def _is_summed(part: Any) -> bool:
    return isinstance(part, Attended)


def with_forms(model: Seq2Seq, forms: Forms) -> Seq2Seq:
    """The same model, with the same arrays, which computes with other forms of kernels.

    Args:
      model: stays as it is.
      forms: `FAST`, in which a model is made, `PLAIN`, or others.
    """
    model = jax.tree.map(lambda leaf: leaf, model)
    modules: list[Any] = [module for _, module in nnx.iter_modules(model)]
    for module in modules:
        if not isinstance(getattr(module, "forms", None), Forms):
            continue
        module.forms = forms
        if forms == type(module).forms:
            del module.forms  # so that the model equals one that never had others
    return model


@functools.partial(jax.jit, static_argnames=("config", "source_size", "target_size"))
def initialize(
    config: Model, source_size: int | tuple[int, ...], target_size: int, rng: Array
) -> Seq2Seq:
    """A model with its initial parameters, drawn in one compiled program.

    Raises:
      InputError: an option is unknown, or options cannot be combined, also to scores that are one.
    """
    rng_layers, rng_rule = jax.random.split(rng)
    model = Seq2Seq(config, source_size, target_size, rngs=nnx.Rngs(rng_layers))
    for attention in model.attentions:
        attention.check_scores()
    return initialized(config, model, rng_rule)


def with_uniform_weights(model: Seq2Seq) -> Seq2Seq:
    """The same model, with the same arrays, whose heads attend to all source words alike.

    What is summed, and what becomes of the sum, stays as it was. Wiegreffe and Pinter 2019, section
    3.2, train such a model; here one is used that has learned its weights.
    """
    model = jax.tree.map(lambda leaf: leaf, model)
    for attention in model.attentions:
        learned = attention.mechanism
        attention.mechanism = Mechanism(Mean(), values=learned.values, gate=learned.gate)
        attention.mixing = Apart()
    return model
