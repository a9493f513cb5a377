"""The Transformer decoder: blocks of self-attention, cross-attention and feed-forward maps.

Vaswani et al. 2017, section 3. Cross-attention takes any mechanism.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, PyTree

from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.attention import Attention, Projected, Source
from attn_jax.models.decoders import Step, Steps
from attn_jax.models.readouts import make_readout

EPSILON = 1e-5  # of layer normalisation


def sinusoids(positions: Int[Array, " T"], features: int) -> Float[Array, "T E"]:
    """sin and cos of positions at wavelengths from 2π to 10000 · 2π. Section 3.5."""
    rates = 10000.0 ** (-jnp.arange(0, features, 2) / features)
    angles = positions[:, None] * rates
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return waves.reshape(positions.size, -1)[:, :features]


class SelfAttention(nnx.Module):
    """Multi-head scaled dot-product attention to the words before. Section 3.2.3."""

    def __init__(self, features: int, heads: int, *, rngs: nnx.Rngs):
        if features % heads:
            raise InputError(
                f"--model.heads={heads} does not divide --model.hidden_size={features}"
            )
        self.heads = heads
        self.inputs = nnx.Linear(features, 3 * features, use_bias=False, rngs=rngs)
        self.output = nnx.Linear(features, features, use_bias=False, rngs=rngs)

    def project(self, inputs: Float[Array, "B T Q"]) -> Float[Array, "3 B T N H"]:
        """The queries, keys and values of each head."""
        projected = self.inputs(inputs).reshape(*inputs.shape[:2], 3, self.heads, -1)
        return jnp.moveaxis(projected, 2, 0)

    def __call__(
        self,
        queries: Float[Array, "B T N H"],
        keys: Float[Array, "B U N H"],
        values: Float[Array, "B U N H"],
        mask: Bool[Array, "T U"],
    ) -> Float[Array, "B T Q"]:
        """What is read of the words that the mask allows."""
        read = jax.nn.dot_product_attention(queries, keys, values, mask=mask[None, None])
        return self.output(read.reshape(*read.shape[:2], -1))


class CrossAttention(nnx.Module):
    """LayerNorm(query + attention(query, annotations)). Sections 3.1 and 3.2.3."""

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.attention = Attention(
            config, width, config.annotation_size, width, projection="linear", rngs=rngs
        )
        self.norm = nnx.LayerNorm(width, epsilon=EPSILON, rngs=rngs)

    def step(
        self, memory: PyTree, query: Float[Array, "B Q"], projected: Projected, mask: Array
    ) -> tuple[PyTree, Float[Array, "B Q"], Float[Array, "B N S"]]:
        """The memory, the output and the weights of one query per sentence."""
        memory, context, weights = self.attention(memory, query, projected, mask)
        return memory, self.norm(query + context), weights

    def __call__(
        self,
        queries: Float[Array, "B T Q"],
        projected: Projected,
        mask: Bool[Array, "B S"],
        rng: Array | None = None,
    ) -> tuple[Float[Array, "B T Q"], Float[Array, "B N T S"]]:
        """The outputs and the weights of all queries."""
        contexts, weights = self.attention.over(queries, projected, mask, rng)
        return self.norm(queries + contexts), weights


class Block(nnx.Module):
    """Self-attention, cross-attention and a feed-forward map, each added to its input and normed.

    Figure 1, with normalisation after the sum as in the paper.
    """

    def __init__(self, config: Model, *, rngs: nnx.Rngs):
        width, hidden = config.hidden_size, config.feedforward_size
        self.self_attention = SelfAttention(width, config.heads, rngs=rngs)
        self.self_norm = nnx.LayerNorm(width, epsilon=EPSILON, rngs=rngs)
        self.cross_attention = CrossAttention(config, rngs=rngs)
        self.widen = nnx.Linear(width, hidden, rngs=rngs)
        self.narrow = nnx.Linear(hidden, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, epsilon=EPSILON, rngs=rngs)

    def feed_forward(self, inputs: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        """LayerNorm(x + W_2 max(0, W_1 x)). Section 3.3, equation 2."""
        return self.norm(inputs + self.narrow(jax.nn.relu(self.widen(inputs))))

    def step(self, state: PyTree, index: Array, inputs: Array, projected: Projected, mask: Array):
        """One word: the keys and values of those before are in the state."""
        (keys, values), memory = state
        queries, key, value = self.self_attention.project(inputs[:, None])
        keys, values = keys.at[:, index].set(key[:, 0]), values.at[:, index].set(value[:, 0])
        before = jnp.arange(keys.shape[1])[None] <= index
        read = self.self_attention(queries, keys, values, before)[:, 0]
        memory, outputs, weights = self.cross_attention.step(
            memory, self.self_norm(inputs + read), projected, mask
        )
        return ((keys, values), memory), (self.feed_forward(outputs), weights)

    def __call__(self, inputs: Array, projected: Projected, mask: Array, rng: Array | None):
        """All words at once."""
        causal = jnp.tri(inputs.shape[1], dtype=bool)
        read = self.self_attention(*self.self_attention.project(inputs), causal)
        outputs, weights = self.cross_attention(self.self_norm(inputs + read), projected, mask, rng)
        return self.feed_forward(outputs), weights


class Transformer(nnx.Module):
    """Blocks over word vectors with sinusoidal positions.

    Its state is the number of words done and, of each block, the keys and values of the words
    before and the memory of the cross-attention.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.input = nnx.Linear(config.embedding_size, width, use_bias=False, rngs=rngs)
        self.blocks = nnx.List([Block(config, rngs=rngs) for _ in range(config.decoder_layers)])
        self.readout = make_readout(config, width, "linear", rngs=rngs)

    def project(self, annotations: Float[Array, "B S D"]) -> tuple[Projected, ...]:
        """What each block's cross-attention needs of the annotations."""
        return tuple(block.cross_attention.attention.project(annotations) for block in self.blocks)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first of at most `length` words."""

        def empty(block: Block) -> PyTree:
            attention = block.self_attention
            width = attention.output.in_features
            rows = len(source.mask)
            cache = jnp.zeros((rows, length, attention.heads, width // attention.heads))
            return (cache, cache), block.cross_attention.attention.begin(source.mask)

        return jnp.zeros((), jnp.int32), tuple(map(empty, self.blocks))

    def _embed(self, embeddings: Float[Array, "B T E"], positions: Int[Array, " T"]) -> Array:
        inputs = self.input(embeddings)
        return inputs + sinusoids(positions, inputs.shape[-1])

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> Step:
        """The next state, the features to read the next word from, and the weights."""
        index, states = state
        features = self._embed(embedding[:, None], index[None])[:, 0]
        following, alignment = [], []
        for block, state, projected in zip(self.blocks, states, source.projected, strict=True):
            state, (features, weights) = block.step(state, index, features, projected, source.mask)
            following.append(state)
            alignment.append(weights)
        state = index + 1, tuple(following)
        return state, self.readout(features), jnp.stack(alignment, axis=1)

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Array | None = None
    ) -> Steps:
        """The features and the alignment, given the words before each step."""
        features = self._embed(embeddings, jnp.arange(embeddings.shape[1]))
        layers = len(self.blocks)
        rngs = [None] * layers if rng is None else jax.random.split(rng, layers)
        alignment = []
        for block, projected, rng in zip(self.blocks, source.projected, rngs, strict=True):
            features, weights = block(features, projected, source.mask, rng)
            alignment.append(weights)
        return self.readout(features), jnp.stack(alignment, axis=1)
