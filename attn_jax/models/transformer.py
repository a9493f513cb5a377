"""The Transformer: an encoder and a decoder, each of which also works with a recurrent counterpart.

Vaswani et al. 2017, section 3.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models import attention, blocks
from attn_jax.models.blocks import (
    POSITIONS,
    CrossAttention,
    FeedForward,
    SelfAttention,
    make_last_norm,
)
from attn_jax.models.decoders import AllSteps, OneStep
from attn_jax.models.dropout import make_dropout
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Encoded, Source, Summary
from attn_jax.models.randomness import split
from attn_jax.models.readouts import make_readout


class InputEmbedding(nnx.Module):
    """From word vectors to the inputs of the lowest block.

    Word vectors are multiplied by √E (section 3.4) and, where the sizes differ, mapped linearly to
    the width of the blocks. Then positions are added (section 3.5; not if they are rotary), and
    dropout is applied (section 5.4).
    """

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        size = config.embedding_size
        self.scale = size**0.5
        self.linear = None if size == width else Linear(size, width, use_bias=False, rngs=rngs)
        self.positions = choose(POSITIONS, config.positions, "kind of positions")
        self.dropout = make_dropout(config)

    def __call__(
        self,
        embeddings: Float[Array, "B T E"],
        positions: Int[Array, " T"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "B T Q"]:
        """The inputs of the lowest block."""
        vectors = self.scale * embeddings
        if self.linear is not None:
            vectors = self.linear(vectors)
        return self.dropout(self.positions.add(vectors, positions), rng)


class EncoderBlock(nnx.Module):
    """Self-attention and a feed-forward map. Figure 1, left."""

    def __init__(self, config: Model, width: int, *, rngs: nnx.Rngs):
        self.self_attention = SelfAttention(config, width, rngs=rngs)
        self.feed_forward = FeedForward(config, width, rngs=rngs)

    def __call__(
        self,
        inputs: Float[Array, "B S D"],
        mask: Bool[Array, "#B #S S"],
        rng: Key[Array, " B"] | None,
    ) -> Float[Array, "B S D"]:
        """Processes all words at once."""
        rng_self, rng_forward = split(rng, 2)
        return self.feed_forward(self.self_attention(inputs, mask, rng_self), rng_forward)


def self_weights(
    blocks: Iterable[EncoderBlock], features: Float[Array, "B S D"], mask: Bool[Array, "#B #S S"]
) -> Float[Array, "B L N S S"]:
    """The weights of self-attention in blocks that stand on one another.

    `features` are the inputs of the lowest.
    """
    of_layers = []
    for block in blocks:
        of_layers.append(block.self_attention.weights(features, mask))
        features = block(features, mask, None)
    return jnp.stack(of_layers, axis=1)


class TransformerEncoder(nnx.Module):
    """Blocks of self-attention. The summary, for recurrent decoders, is the mean annotation."""

    options = blocks.OPTIONS | {"embedding_size", "annotation_size", "encoder_layers"}

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        width = self.summary_size = config.annotation_size
        self.input_embedding = InputEmbedding(config, width, rngs=rngs)
        self.blocks = nnx.List(
            [EncoderBlock(config, width, rngs=rngs) for _ in range(config.encoder_layers)]
        )
        self.norm = make_last_norm(config, width, rngs=rngs)

    def __call__(
        self,
        embeddings: Float[Array, "B S E"],
        mask: Bool[Array, "B S"],
        rng: Key[Array, " B"] | None = None,
    ) -> tuple[Float[Array, "B S D"], Summary]:
        """The annotations and the summary."""
        rng_input, *rngs = split(rng, 1 + len(self.blocks))
        features = self.input_embedding(embeddings, jnp.arange(embeddings.shape[1]), rng_input)
        for block, rng_block in zip(self.blocks, rngs, strict=True):
            features = block(features, mask[:, None], rng_block)
        if self.norm is not None:
            features = self.norm(features)
        real = jnp.where(mask[..., None], features, 0)
        mean = real.sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)[:, None]
        return features, Summary(mean, ())

    def self_weights(
        self, embeddings: Float[Array, "B S E"], mask: Bool[Array, "B S"]
    ) -> Float[Array, "B L N S S"]:
        """How much each word attends to each: 0 to padding."""
        features = self.input_embedding(embeddings, jnp.arange(embeddings.shape[1]), None)
        return self_weights(self.blocks, features, mask[:, None])


class DecoderBlock(nnx.Module):
    """Masked self-attention, cross-attention and a feed-forward map. Figure 1, right.

    The state is the keys and values of the previous words and the memory of the cross-attention.
    """

    def __init__(self, config: Model, layer: int, *, rngs: nnx.Rngs):
        self.self_attention = SelfAttention(config, config.hidden_size, rngs=rngs)
        self.cross_attention = CrossAttention(config, layer, rngs=rngs)
        self.feed_forward = FeedForward(config, config.hidden_size, rngs=rngs)

    def start(self, mask: PyTree[Bool[Array, "B S"]], length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        memory = self.cross_attention.attention.begin(mask)
        rows = len(jax.tree.leaves(mask)[0])
        return self.self_attention.empty(rows, length), memory

    def step(
        self,
        state: PyTree,
        index: Int[Array, ""],
        inputs: Float[Array, "B Q"],
        projected: PyTree,
        mask: PyTree[Bool[Array, "B S"]],
    ) -> tuple[PyTree, Float[Array, "B Q"], Float[Array, "B N S"]]:
        """Processes the word at `index`. Returns the new state, the output and the weights."""
        cache, memory = state
        cache, features = self.self_attention.step(cache, index, inputs)
        memory, features, weights = self.cross_attention.step(memory, features, projected, mask)
        return (cache, memory), self.feed_forward(features), weights

    def __call__(
        self,
        inputs: Float[Array, "B T Q"],
        projected: PyTree,
        mask: PyTree[Bool[Array, "B S"]],
        rng: Key[Array, " B"] | None,
    ) -> tuple[Float[Array, "B T Q"], Float[Array, "B N T S"]]:
        """Processes all words at once. Returns the outputs and the weights."""
        rng_self, rng_cross, rng_forward = split(rng, 3)
        causal = jnp.tri(inputs.shape[1], dtype=bool)[None]
        features = self.self_attention(inputs, causal, rng_self)
        features, weights = self.cross_attention(features, projected, mask, rng_cross)
        return self.feed_forward(features, rng_forward), weights


class Transformer(nnx.Module):
    """The decoder. Its state is the number of previous steps and the states of its blocks."""

    usual_readout = "linear"
    options = (
        blocks.OPTIONS
        | attention.OPTIONS
        | {"embedding_size", "annotation_size", "hidden_size", "decoder_layers", "readout"}
    )

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.input_embedding = InputEmbedding(config, width, rngs=rngs)
        self.blocks = nnx.List(
            [DecoderBlock(config, layer, rngs=rngs) for layer in range(config.decoder_layers)]
        )
        self.norm = make_last_norm(config, width, rngs=rngs)
        self.readout = make_readout(config, width, self.usual_readout, rngs=rngs)

    def project(self, encoded: Encoded) -> tuple[PyTree, ...]:
        """The keys and values of the annotations for each block's cross-attention."""
        attentions = [block.cross_attention.attention for block in self.blocks]
        return tuple(attention.project(encoded) for attention in attentions)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        states = tuple(block.start(source.mask, length) for block in self.blocks)
        return jnp.zeros((), jnp.int32), states

    def _read(self, features: Float[Array, "... Q"]) -> Float[Array, "... F"]:
        return self.readout(features if self.norm is None else self.norm(features))

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> OneStep:
        """The next state, the features for the output layer, and the weights."""
        index, states = state
        features = self.input_embedding(embedding[:, None], index[None], None)[:, 0]
        following, of_layers = [], []
        for block, before, projected in zip(self.blocks, states, source.projected, strict=True):
            after, features, weights = block.step(before, index, features, projected, source.mask)
            following.append(after)
            of_layers.append(weights)
        return (index + 1, tuple(following)), self._read(features), jnp.stack(of_layers, axis=1)

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> AllSteps:
        """The features for the output layer and the weights at all steps.

        `embeddings` are the vectors of the previous word at each step.
        """
        rng_input, *rngs = split(rng, 1 + len(self.blocks))
        features = self.input_embedding(embeddings, jnp.arange(embeddings.shape[1]), rng_input)
        of_layers = []
        for block, projected, rng_block in zip(self.blocks, source.projected, rngs, strict=True):
            features, weights = block(features, projected, source.mask, rng_block)
            of_layers.append(weights)
        weights = jax.tree.map(lambda *layers: jnp.stack(layers, axis=1), *of_layers)
        return self._read(features), weights

    def self_weights(
        self, embeddings: Float[Array, "B T E"], source: Source
    ) -> Float[Array, "B L N T T"]:
        """How much each step attends to the word that each has read: 0 to those of later steps."""
        steps = embeddings.shape[1]
        features = self.input_embedding(embeddings, jnp.arange(steps), None)
        causal, of_layers = jnp.tri(steps, dtype=bool)[None], []
        for block, projected in zip(self.blocks, source.projected, strict=True):
            of_layers.append(block.self_attention.weights(features, causal))
            features, _ = block(features, projected, source.mask, None)
        return jnp.stack(of_layers, axis=1)
