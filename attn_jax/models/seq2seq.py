"""The encoder-decoder: embeddings, an encoder, a decoder with attention, an output layer.

The model is a pytree of its parameters: `jax.jit`, `jax.grad` and optax take it as it is.
"""

import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, PyTree

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models.attention import Source
from attn_jax.models.decoders import Bahdanau, Luong, LuongInputFeeding
from attn_jax.models.dropout import dropout
from attn_jax.models.encoders import Encoder
from attn_jax.models.transformer import Transformer
from attn_jax.tokens import BOS, PAD

DECODERS: dict[str, type[nnx.Module]] = {
    "bahdanau": Bahdanau,
    "luong": Luong,
    "luong_input_feeding": LuongInputFeeding,
    "transformer": Transformer,
}


class Seq2Seq(nnx.Module):
    """An encoder-decoder with any mechanism of attention.

    Args:
      config: its parts and sizes.
      source_size: words in the source vocabulary.
      target_size: V, words in the target vocabulary.
      rngs: where the first parameters are drawn from.
    """

    def __init__(self, config: Model, source_size: int, target_size: int, *, rngs: nnx.Rngs):
        decoder = choose(DECODERS, config.decoder, "decoder")
        self.dropout = config.dropout
        self.source_embedding = nnx.Embed(source_size, config.embedding_size, rngs=rngs)
        self.target_embedding = nnx.Embed(target_size, config.embedding_size, rngs=rngs)
        self.encoder = Encoder(config, rngs=rngs)
        self.decoder = decoder(config, self.encoder.summary_size, rngs=rngs)
        self.output = nnx.Linear(self.decoder.readout.size, target_size, rngs=rngs)

    def encode(self, source: Int[Array, "B S"], rng: Array | None = None) -> Source:
        """Reads source sentences; `PAD` marks what is no word. `rng` turns dropout on."""
        mask = source != PAD
        embeddings = dropout(self.source_embedding(source), self.dropout, rng)
        annotations, summary = self.encoder(embeddings, mask)
        return Source(self.decoder.project(annotations), mask, summary)

    def __call__(
        self, source: Int[Array, "B S"], target: Int[Array, "B T"], rng: Array | None = None
    ) -> tuple[Float[Array, "B T F"], Float[Array, "B L N T S"]]:
        """The features of the output layer, and the alignment of each layer and head.

        Args:
          source: source sentences.
          target: target sentences, each ended by `EOS`.
          rng: makes the pass one of training, with dropout and with what is random in attention.
        """
        rngs = (None,) * 4 if rng is None else jax.random.split(rng, 4)
        before = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)
        embeddings = dropout(self.target_embedding(before), self.dropout, rngs[0])
        features, alignment = self.decoder(embeddings, self.encode(source, rngs[1]), rngs[3])
        return dropout(features, self.dropout, rngs[2]), alignment

    def start(self, source: Source, length: int) -> PyTree:
        """The decoder's state before the first of at most `length` words."""
        return self.decoder.start(source, length)

    def step(
        self, state: PyTree, word: Int[Array, " B"], source: Source
    ) -> tuple[PyTree, Float[Array, "B V"], Float[Array, "B L N S"]]:
        """The next state, the log-probabilities of the next word in nats, and the weights.

        Args:
          state: of the decoder.
          word: the one before, `BOS` at first.
          source: the sentences, encoded.
        """
        embedding = self.target_embedding(word)
        state, features, weights = self.decoder.step(state, embedding, source)
        return state, jax.nn.log_softmax(self.output(features)), weights


@functools.partial(jax.jit, static_argnames=("config", "source_size", "target_size"))
def initialize(config: Model, source_size: int, target_size: int, rng: Array) -> Seq2Seq:
    """A model with its first parameters, drawn in one compiled program."""
    return Seq2Seq(config, source_size, target_size, rngs=nnx.Rngs(rng))
