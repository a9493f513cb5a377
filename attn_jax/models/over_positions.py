"""The decoders of hard attention, which read each position of the source by itself.

Their states depend on previous words alone, and not on earlier alignments, which therefore can be
summed over.
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from attn_jax.attention.gates import Ungated
from attn_jax.attention.scores import Mean
from attn_jax.attention.sources import Combined, Concatenated
from attn_jax.attention.windows import Full
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.kernels.forms import FAST
from attn_jax.models.blocks import make_last_norm
from attn_jax.models.decoders import Luong
from attn_jax.models.dropout import make_dropout
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import Steps, logarithm
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.randomness import split
from attn_jax.models.readouts import find_readout, make_readout
from attn_jax.models.transformer import EncoderBlock, InputEmbedding, self_weights
from attn_jax.models.two_attentions import make_attention


class OfPositions(NamedTuple):
    """What is computed from the annotations once per sentence."""

    attended: PyTree  # keys and values
    features: Float[Array, "B S F"]  # W_c c_j, c_j the context if all weight is on position j
    own: PyTree[Float[Array, "B S M"]]  # what the readout itself computes from c_j, or None


class OverPositions(nnx.Module):
    """h̃_ij = tanh(W_c [c_j; s_i]) for each position j, from the states s_i of a kind of decoder.

    Luong, Pham and Manning 2015, section 3, without input feeding. The weights are α_ij, of one
    head. The state is that of the kind, and the memory of attention.
    """

    attention: Any
    combine: Any
    readout: Any
    dropout: Any
    forms: Any

    @abc.abstractmethod
    def _next(self, state: PyTree, embedding: Float[Array, "B E"]) -> tuple[PyTree, Array]:
        """The next state of the kind, and s_i, from that of the previous step."""

    @abc.abstractmethod
    def _outputs(
        self,
        embeddings: Float[Array, "B T E"],
        source: Source,
        rng_in: Key[Array, " B"] | None,
        rng_steps: Key[Array, " B"] | None,
    ) -> Float[Array, "B T Q"]:
        """The states s_i of all steps."""

    def project(self, encoded: Encoded) -> OfPositions:
        """Keys and values, and what is read of each position."""
        attended: Any = self.attention.project(encoded)
        contexts = self.attention.alone(attended)
        of_context, _ = self._matrices()
        features = self.forms.product(contexts, of_context)
        return OfPositions(attended, features, self.readout.of_positions(contexts))

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> tuple:
        """The next state, what the readout takes, and the weights."""
        hidden, memory = state
        hidden, output = self._next(hidden, embedding)
        memory, context, weights = self.attention.step(
            memory, output, source.projected.attended, source.mask
        )
        steps = self._steps(output, context, weights[:, 0], source, None)
        return (hidden, memory), steps, weights[:, None]

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> tuple:
        """What the readout takes and the weights at all steps.

        `embeddings` are the vectors of the previous word at each step.
        """
        rng_in, rng_steps, rng_attention, rng_out = split(rng, 4)
        outputs = self._outputs(embeddings, source, rng_in, rng_steps)
        attended = source.projected.attended
        contexts, weights = self.attention(outputs, attended, source.mask, rng_attention)
        steps = self._steps(outputs, contexts, weights[:, 0], source, rng_out)
        return steps, weights[:, None]

    def _steps(
        self,
        outputs: Float[Array, "B *T Q"],
        contexts: Float[Array, "B *T O"],
        weights: Float[Array, "B *T S"],
        source: Source,
        rng: Key[Array, " B"] | None,
    ) -> Steps:
        mask = source.first_mask if weights.ndim == 2 else source.first_mask[:, None]
        _, of_rest = self._matrices()
        # The context of a second source, if there is one, is read as the state is.
        rest = jnp.concatenate([contexts[..., self.attention.sizes[0] :], outputs], axis=-1)
        of_states = self.forms.product(rest, of_rest)
        kept = self.dropout(jnp.ones_like(of_states), rng)
        log_weights = logarithm(jnp.where(mask, weights, 0))
        moves, noise = self.readout.of_states(outputs), self.readout.noise(rng, log_weights)
        return Steps(of_states, kept, log_weights, log_weights, moves, noise)

    def _matrices(self) -> list[Array]:
        """The parts of W_c, for the context of a position and for all else that is read."""
        return jnp.split(self.combine.kernel[...], [self.attention.sizes[0]])


class LuongOverPositions(OverPositions, Luong):
    """s_i = f(s_{i-1}, y_{i-1}), of a recurrent stack."""

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(checked(config), summary_size, rngs=rngs)

    def _next(self, state: PyTree, embedding: Float[Array, "B E"]) -> tuple[PyTree, Array]:
        state = self.cell(state, self.cell.input(embedding))
        return state, self.cell.output(state)

    _outputs = Luong._outputs


class TransformerOverPositions(OverPositions):
    """s_i from self-attention to the previous words: blocks without cross-attention.

    So the decoder sees the source in h̃_ij alone, as a recurrent one does.
    """

    forms = FAST

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        config, width = checked(config), config.hidden_size
        self.input_embedding = InputEmbedding(config, width, rngs=rngs)
        self.blocks = nnx.List(
            [EncoderBlock(config, width, rngs=rngs) for _ in range(config.decoder_layers)]
        )
        self.norm = make_last_norm(config, width, rngs=rngs)
        self.attention = make_attention(
            config, width, config.annotation_size, projection="linear", rngs=rngs
        )
        self.combine = Linear(self.attention.size + width, width, use_bias=False, rngs=rngs)
        self.readout = make_readout(config, width, "", rngs=rngs)
        self.dropout = make_dropout(config)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        rows = len(source.first_mask)
        caches = tuple(block.self_attention.empty(rows, length) for block in self.blocks)
        return (jnp.zeros((), jnp.int32), caches), self.attention.begin(source.mask)

    def _next(self, state: PyTree, embedding: Float[Array, "B E"]) -> tuple[PyTree, Array]:
        index, caches = state
        features = self.input_embedding(embedding[:, None], index[None], None)[:, 0]
        following = []
        for block, before in zip(self.blocks, caches, strict=True):
            after, features = block.self_attention.step(before, index, features)
            features = block.feed_forward(features)
            following.append(after)
        return (index + 1, tuple(following)), self._normed(features)

    def _outputs(
        self,
        embeddings: Float[Array, "B T E"],
        source: Source,
        rng_in: Key[Array, " B"] | None,
        rng_steps: Key[Array, " B"] | None,
    ) -> Float[Array, "B T Q"]:
        steps = embeddings.shape[1]
        features = self.input_embedding(embeddings, jnp.arange(steps), rng_in)
        causal = jnp.tri(steps, dtype=bool)[None]
        for block, rng in zip(self.blocks, split(rng_steps, len(self.blocks)), strict=True):
            features = block(features, causal, rng)
        return self._normed(features)

    def self_weights(
        self, embeddings: Float[Array, "B T E"], source: Source
    ) -> Float[Array, "B L N T T"]:
        """How much each step attends to the word that each has read: 0 to those of later steps."""
        steps = embeddings.shape[1]
        features = self.input_embedding(embeddings, jnp.arange(steps), None)
        return self_weights(self.blocks, features, jnp.tri(steps, dtype=bool)[None])

    def _normed(self, features: Float[Array, "... Q"]) -> Float[Array, "... Q"]:
        return features if self.norm is None else self.norm(features)


def checked(config: Model) -> Model:
    """The options of a decoder over positions, without a mechanism if the readout reads no weights.

    Raises:
      InputError: the weights of the mechanism are no probabilities of positions.
    """
    readout: Any = find_readout(config, "")
    if not readout.reads_weights:
        config = dataclasses.replace(config, score=Mean(), window=Full(), normalizer=None)
    sums = f"model.readout={config.readout} sums over the positions of a step"
    if config.heads > 1:
        raise InputError(f"{sums}, of which each head would have its own: leave out model.heads")
    mechanism = config.mechanism
    if not mechanism.sums_to_one:
        raise InputError(
            f"{sums}, whose weights must be probabilities: those of "
            f"{', '.join(part.word for part in mechanism)} need not sum to 1"
        )
    if mechanism.looks_back:
        raise InputError(
            f"{sums}, with weights that do not depend on earlier ones, as those of "
            f"{', '.join(part.word for part in mechanism)} do"
        )
    if not isinstance(mechanism.gate, Ungated):
        raise InputError(f"{sums}, which model.gate={mechanism.gate.brief()} does not gate")
    if isinstance(config.sources, Combined) and not isinstance(config.sources, Concatenated):
        raise InputError(
            f"{sums} of the first source, which model.sources={config.sources.brief()} mixes "
            "with the second: give model.sources=concatenated or flat"
        )
    return config
