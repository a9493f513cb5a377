"""The encoder-decoder: embeddings, an encoder, a decoder with attention, an output layer.

The model is a pytree of its parameters, which `jax.jit`, `jax.grad` and optax accept directly. It
is differentiable in reverse mode, to any order, but not in forward mode (`jax.jvp`).
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from attn_jax.attention.scores import Last
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.attention import Attention
from attn_jax.models.decoders import Bahdanau, Luong, LuongInputFeeding
from attn_jax.models.embeddings import make_embeddings
from attn_jax.models.encoders import LAYERS, RecurrentEncoder
from attn_jax.models.initializations import initialized
from attn_jax.models.randomness import split
from attn_jax.models.readouts import find_readout
from attn_jax.models.source import Source
from attn_jax.models.transformer import Transformer, TransformerEncoder
from attn_jax.names import choose_or_import
from attn_jax.tokens import BOS, PAD

ENCODERS: dict[str, type[nnx.Module]] = {
    **dict.fromkeys(LAYERS, RecurrentEncoder),
    "transformer": TransformerEncoder,
}

DECODERS: dict[str, type[nnx.Module]] = {
    "bahdanau": Bahdanau,
    "luong": Luong,
    "luong_input_feeding": LuongInputFeeding,
    "transformer": Transformer,
}


# The options of every model; the parts that others choose say what they use.
OPTIONS = frozenset(
    {"encoder", "decoder", "score", "window", "normalizer"}
    | {"embeddings", "embedding_size", "initialization"}
)


def options_of(config: Model) -> frozenset[str]:
    """The names of the options that a model uses; encoders and decoders of ones own use all.

    Raises:
      InputError: there is no such encoder, decoder or readout.
    """
    if ":" in config.encoder + config.decoder:
        return frozenset(vars(config))
    encoder = choose_or_import(ENCODERS, config.encoder, "encoder")
    decoder = choose_or_import(DECODERS, config.decoder, "decoder")
    readout = find_readout(config, decoder.usual_readout)
    return OPTIONS | encoder.options | decoder.options | readout.options


class Seq2Seq(nnx.Module):
    """An encoder-decoder with any attention mechanism.

    Args:
      config: its parts and sizes.
      source_size: words in the source vocabulary.
      target_size: V, words in the target vocabulary.
      rngs: for the initial parameters.

    Raises:
      InputError: an option is unknown, or options cannot be combined.
    """

    def __init__(self, config: Model, source_size: int, target_size: int, *, rngs: nnx.Rngs):
        encoder = choose_or_import(ENCODERS, config.encoder, "encoder")
        if config.encoder == "backward" and isinstance(config.score, Last):
            raise InputError(
                "--model.score=last attends to the last word, where a backward encoder has read "
                "nothing else yet: give --model.encoder=unidirectional or bidirectional"
            )
        decoder = choose_or_import(DECODERS, config.decoder, "decoder")
        if not hasattr(decoder, "step"):
            raise InputError(f"--model.decoder={config.decoder} is not a decoder: it has no `step`")
        # A control's weights do not depend on the words.
        self.is_control = config.score.is_control
        # Each part has its own key, so that its choice does not change the parameters of others.
        parts = [nnx.Rngs(rng) for rng in jax.random.split(rngs.params(), 3)]
        self.encoder = encoder(config, rngs=parts[0])
        self.decoder = decoder(config, self.encoder.summary_size, rngs=parts[1])
        features = self.decoder.readout.size
        self.words = make_embeddings(config, source_size, target_size, features, rngs=parts[2])

    @property
    def heads(self) -> int:
        """The number of heads that attend to the source, over all layers; 1 if none is found."""
        shapes = [attention.projections.shape for attention in self.attentions]
        return sum(heads * groups for heads, groups in shapes) or 1

    @property
    def attentions(self) -> list[Attention]:
        """The modules that attend to the source; none if a decoder of the user's own has others."""
        return [module for _, module in nnx.iter_modules(self) if isinstance(module, Attention)]

    def encode(self, source: Int[Array, "B S"], rng: Key[Array, " B"] | None = None) -> Source:
        """Encodes source sentences, padded with `PAD`. `rng` turns on dropout."""
        mask = source != PAD
        annotations, summary = self.encoder(self.words.source(source), mask, rng)
        return Source(self.decoder.project(annotations), mask, summary)

    def __call__(
        self,
        source: Int[Array, "B S"],
        target: Int[Array, "B T"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B T F"], Float[Array, "B L N T S"]]:
        """The features that the output layer reads, and the weights of each layer and head.

        Args:
          source: source sentences, padded with `PAD`.
          target: target sentences, each ending with `EOS`.
          rng: for training: a random key for each sentence, as `by_row` makes them from one key.
            Turns on dropout and what attention does only in training. Without it, the weights of
            `monotonic` and `mocha` are hard and have no gradient.
        """
        rng_encoder, rng_decoder = split(rng, 2)
        before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)
        return self.decoder(
            self.words.target(before), self.encode(source, rng_encoder), rng_decoder
        )

    def start(self, source: Source, length: int) -> PyTree:
        """The decoder's state before the first word; targets have at most `length` words."""
        return self.decoder.start(source, length)

    def step(
        self, state: PyTree, word: Int[Array, " B"], source: Source
    ) -> tuple[PyTree, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The next state, the log-probabilities of the next word in nats, and the weights.

        Args:
          state: of the decoder.
          word: the previous word of each sentence; `BOS` at the first step.
          source: the encoded sentences.
        """
        state, features, weights = self.decoder.step(state, self.words.target(word), source)
        # XLA's CPU backend would fuse the product and the softmax's maximum into one slower loop.
        logits = jax.lax.optimization_barrier(self.words.logits(features))
        return state, jax.nn.log_softmax(logits), weights


@functools.partial(jax.jit, static_argnames=("config", "source_size", "target_size"))
def initialize(config: Model, source_size: int, target_size: int, rng: Array) -> Seq2Seq:
    """A model with its initial parameters, drawn in one compiled program.

    Raises:
      InputError: an option is unknown, or options cannot be combined, also to scores that are one.
    """
    rng_layers, rng_rule = jax.random.split(rng)
    model = Seq2Seq(config, source_size, target_size, rngs=nnx.Rngs(rng_layers))
    for attention in model.attentions:
        attention.check_scores()
    return initialized(config, model, rng_rule)
