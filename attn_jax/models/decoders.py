"""Recurrent decoders: the order in which they attend, update their state and read out.

Each is a `protocols.Decoder`. `__call__` computes outside of its scan whatever does not depend on
the previous state.
"""

import abc
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from attn_jax.config import Model
from attn_jax.kernels.forms import FAST
from attn_jax.models import attention, stacks
from attn_jax.models.dropout import make_dropout
from attn_jax.models.linear import Linear
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.randomness import split, split_stacked
from attn_jax.models.readouts import make_readout
from attn_jax.models.stacks import make_first_state, make_stack
from attn_jax.models.two_attentions import make_attention

OneStep = tuple[PyTree, Float[Array, "B F"], Float[Array, "B L N S"]]
AllSteps = tuple[Float[Array, "B T F"], Float[Array, "B L N T S"]]
Advanced = tuple[PyTree[Float[Array, "B ..."]], Float[Array, "B N S"]]


class Inputs(NamedTuple):
    """What is known of a step of a recurrent decoder; or of all, with an axis T before the others.

    The random keys, for dropout in the cell and for attention, are given in training alone.
    """

    words: Float[Array, "B G"]  # the vectors of the previous words, projected
    rng_cell: Key[Array, " B"] | None = None
    rng_attention: Key[Array, " B"] | None = None
    copied: Any = None  # where the previous word stands, bool [B, S]; for `CopyNet`


class Recurrent(nnx.Module):
    """What the recurrent decoders share: attention, cell and initial state.

    The state of a decoder is that of the cell and the memory of attention.
    """

    forms = FAST
    readout: Any
    usual_readout: str  # what `model.readout=auto` stands for
    options = (
        stacks.OPTIONS
        | attention.OPTIONS
        | {"embedding_size", "annotation_size", "hidden_size", "decoder_layers"}
        | {"first_state", "readout"}
    )

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.attention = self.make_attention(config, rngs)
        self.first_state = make_first_state(config, summary_size, rngs=rngs)
        self.cell = make_stack(
            config, config.embedding_size, config.hidden_size, config.decoder_layers, rngs=rngs
        )
        self.dropout = make_dropout(config)

    def make_attention(self, config: Model, rngs: nnx.Rngs) -> Any:
        """What `advance` attends with."""
        sizes = config.hidden_size, config.annotation_size
        return make_attention(config, *sizes, projection="none", rngs=rngs)

    def project(self, encoded: Encoded) -> PyTree:
        """The keys and values of the annotations."""
        return self.attention.project(encoded)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word; targets have at most `length` words."""
        return self.first_state(source.summary, self.cell), self.attention.begin(source.mask)

    @abc.abstractmethod
    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        """One step, which defines the order of attention and state update in a decoder.

        Args:
          source: the encoded sentences.
          state: the previous state of the decoder.
          inputs: what is known of the step.

        Returns:
          The next state; and what `features` reads, [B, ...], with the weights.
        """

    def inputs(self, embeddings: Float[Array, "*any E"]) -> Float[Array, "*any G"]:
        """What `advance` reads of the vectors of the previous words."""
        return self.cell.input(embeddings)

    def known(self, embeddings: Float[Array, "*T B E"], source: Source) -> Inputs:
        """What is known of a step, or of all steps, but for random keys."""
        return Inputs(self.inputs(embeddings))

    def features(
        self,
        outputs: PyTree,
        embeddings: Float[Array, "B *T E"],
        rng: Key[Array, " B"] | None = None,
    ) -> PyTree[Float[Array, "B ..."]]:
        """What the output layer reads, from what `advance` has returned, at one step or at all."""
        return self.readout(self.dropout(outputs, rng))

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> OneStep:
        """The next state, the features for the output layer, and the weights."""
        inputs = self.known(embedding, source)
        state, (outputs, weights) = self.advance(source, state, inputs)
        return state, self.features(outputs, embedding), weights[:, None]

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> AllSteps:
        """The features for the output layer and the weights at all steps.

        `embeddings` are the vectors of the previous word at each step.
        """
        rng_in, rng_cell, rng_attention, rng_out = split(rng, 4)
        embeddings, count = self.dropout(embeddings, rng_in), embeddings.shape[1]
        inputs = self.known(jnp.swapaxes(embeddings, 0, 1), source)._replace(
            rng_cell=self.dropout.steps(rng_cell, count, len(self.cell.cells)),
            rng_attention=split_stacked(rng_attention, count),
        )
        first = self.start(source, count)
        _, made = self.forms.scan(type(self).advance, (self, source), first, inputs)
        outputs, weights = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), made)
        weights = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 2)[:, None], weights)
        return self.features(outputs, embeddings, rng_out), weights


class Bahdanau(Recurrent):
    """RNNsearch: attends from the previous state, updates the state, reads out.

    c_i from s_{i-1},  s_i = f(s_{i-1}, y_{i-1}, c_i),  p(y_i) = g(s_i, y_{i-1}, c_i)

    Bahdanau, Cho and Bengio 2014, section 3.1. The readout is from s_i, as in their equation 4; in
    their appendix, it is from s_{i-1}.
    """

    usual_readout = "maxout"

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        gates = self.cell.gates * config.hidden_size
        self.context = Linear(self.attention.size, gates, use_bias=False, rngs=rngs)
        inputs = config.hidden_size + config.embedding_size + self.attention.size
        self.readout = make_readout(config, inputs, self.usual_readout, rngs=rngs)

    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        hidden, memory = state
        memory, context, weights = self.attention.step(
            memory, self.cell.output(hidden), source.projected, source.mask, inputs.rng_attention
        )
        hidden = self.cell(hidden, inputs.words + self.context(context), inputs.rng_cell)
        return (hidden, memory), ((self.cell.output(hidden), context), weights)

    def features(
        self, outputs: PyTree, embeddings: Array, rng: Key[Array, " B"] | None = None
    ) -> PyTree[Float[Array, "B ..."]]:
        """The readout of the new state, the previous word and the context."""
        output, context = outputs
        return self.dropout(self.readout(output, embeddings, context), rng)


class Luong(Recurrent):
    """Attends from the new state: s_i = f(s_{i-1}, y_{i-1}), then h̃_i = tanh(W_c [c_i; s_i]).

    Luong, Pham and Manning 2015, section 3, equation 5, without input feeding: the states do not
    depend on attention, so that all steps can attend in parallel.

    Without heads, the values go through the context's part of W_c once per sentence, instead of
    each context: W_c Σ_j α_j h_j = Σ_j α_j W_c h_j.
    """

    usual_readout = "linear"

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        self.combine = Linear(
            self.attention.size + config.hidden_size,
            config.hidden_size,
            use_bias=False,
            rngs=rngs,
        )
        self.readout = make_readout(config, config.hidden_size, self.usual_readout, rngs=rngs)

    def project(self, encoded: Encoded) -> PyTree:
        """The keys and values of the annotations; where possible, the values are W_c h_j."""
        projected = super().project(encoded)
        if not self.attention.sums_values:
            return projected
        of_context, _ = self._matrices()
        return projected._replace(values=self.forms.product(projected.values, of_context))

    def _matrices(self) -> list[Array]:
        """The parts of W_c, for a context and for a state."""
        kernel = self.combine.kernel[...]
        return jnp.split(kernel, [len(kernel) - self.cell.units])

    def _attentional(self, outputs: Array, contexts: Array) -> Array:
        """The attentional states h̃."""
        if not self.attention.sums_values:
            return jnp.tanh(self.combine(contexts, outputs))
        _, of_state = self._matrices()
        return jnp.tanh(contexts + self.forms.product(outputs, of_state))

    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        hidden, memory = state
        hidden = self.cell(hidden, inputs.words, inputs.rng_cell)
        output = self.cell.output(hidden)
        memory, context, weights = self.attention.step(
            memory, output, source.projected, source.mask, inputs.rng_attention
        )
        return (hidden, memory), (self._attentional(output, context), weights)

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> AllSteps:
        """The features for the output layer and the weights at all steps.

        `embeddings` are the vectors of the previous word at each step.
        """
        rng_in, rng_steps, rng_attention, rng_out = split(rng, 4)
        outputs = self._outputs(embeddings, source, rng_in, rng_steps)
        contexts, weights = self.attention(outputs, source.projected, source.mask, rng_attention)
        attentional = self._attentional(outputs, contexts)
        weights = jax.tree.map(lambda leaf: leaf[:, None], weights)
        return self.features(attentional, embeddings, rng_out), weights

    def _outputs(
        self,
        embeddings: Float[Array, "B T E"],
        source: Source,
        rng_in: Key[Array, " B"] | None,
        rng_steps: Key[Array, " B"] | None,
    ) -> Float[Array, "B T Q"]:
        """The states s_i of all steps."""
        everywhere = jnp.ones(embeddings.shape[:2], bool)
        first, _ = self.start(source, embeddings.shape[1])
        embeddings = self.dropout(embeddings, rng_in)
        _, outputs = self.cell.unroll(embeddings, everywhere, first, rng_steps)
        return outputs


class LuongInputFeeding(Luong):
    """Luong's decoder with h̃ fed into the next state: s_i = f(s_{i-1}, [y_{i-1}; h̃_{i-1}]).

    h̃_0 = 0. Luong, Pham and Manning 2015, section 3.3.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        gates = self.cell.gates * config.hidden_size
        self.feed = Linear(config.hidden_size, gates, use_bias=False, rngs=rngs)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word, including h̃_0 = 0."""
        hidden, memory = super().start(source, length)
        return hidden, memory, jnp.zeros_like(self.cell.output(hidden))

    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        *state, attentional = state
        fed = inputs._replace(words=inputs.words + self.feed(attentional))
        state, (attentional, weights) = super().advance(source, tuple(state), fed)
        return (*state, attentional), (attentional, weights)

    __call__ = Recurrent.__call__  # one step after another
