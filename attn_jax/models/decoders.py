"""Recurrent decoders: the order in which they attend, update their state and read out.

Every decoder has the same methods: `project` computes once per sentence what attention needs of the
annotations, `start` gives the state before the first word, `step` processes one word, and the call
all words of known targets, with the same result as the steps. The call keeps everything out of its
scan that need not wait for the previous state. With an `rng`, the call is one of training.
"""

import abc

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PyTree

from attn_jax.config import Model
from attn_jax.models.attention import Attention, Projected, Source
from attn_jax.models.deferral import scan
from attn_jax.models.dropout import make_dropout, split
from attn_jax.models.first_states import make_first_state
from attn_jax.models.linear import Linear
from attn_jax.models.readouts import make_readout
from attn_jax.models.recurrent import unroll
from attn_jax.models.stacks import make_stack

Step = tuple[PyTree, Float[Array, "B F"], Float[Array, "B L N S"]]
Steps = tuple[Float[Array, "B T F"], Float[Array, "B L N T S"]]


class Recurrent(nnx.Module):
    """What the recurrent decoders share: attention, cell and first state.

    Its state is that of the cell and the memory of the attention.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        self.attention = Attention(
            config,
            config.hidden_size,
            config.annotation_size,
            config.annotation_size,
            projection="none",
            rngs=rngs,
        )
        self.first_state = make_first_state(config, summary_size, rngs=rngs)
        self.cell = make_stack(
            config, config.embedding_size, config.hidden_size, config.decoder_layers, rngs=rngs
        )
        self.dropout = make_dropout(config)

    def project(self, annotations: Float[Array, "B S D"]) -> Projected:
        """What attention needs of the annotations."""
        return self.attention.project(annotations)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first of at most `length` words."""
        return self.first_state(source.summary, self.cell), self.attention.begin(source.mask)

    @abc.abstractmethod
    def advance(
        self,
        state: PyTree,
        source: Source,
        projected: Float[Array, "B G"],
        within: Array | None = None,
        attending: Array | None = None,
    ) -> tuple[PyTree, tuple[Array, ...]]:
        """One step: in which order a decoder attends and moves its state.

        Args:
          state: of the decoder, as `start` makes it.
          source: the sentences, encoded.
          projected: the word before, as `cell.input` projected it.
          within: a random key for dropout in the cell.
          attending: a random key for what is random in attention.

        Returns:
          The next state, and what is read out of this step, each [B, ...], the weights [B, N, S]
          last.
        """

    def _scan(self, embeddings: Array, source: Source, rng: Array | None) -> tuple[Array, ...]:
        """What `advance` gives at each step, batch first, the weights as an alignment last."""
        projected = self.cell.input(jnp.swapaxes(embeddings, 0, 1))
        within, attending = split(rng, 2)

        def step(parameters: tuple, state: PyTree, inputs: tuple) -> tuple:
            decoder, source = parameters
            return decoder.advance(state, source, *inputs)

        _, (*given, alignment) = scan(
            step,
            (self, source),
            self.start(source, len(projected)),
            (
                projected,
                self.dropout.steps(within, len(projected)),
                None if attending is None else jax.random.split(attending, len(projected)),
            ),
        )
        return *(jnp.swapaxes(x, 0, 1) for x in given), jnp.moveaxis(alignment, 0, 2)[:, None]


class Bahdanau(Recurrent):
    """RNNsearch: attends from the state before, moves the state, reads out.

    c_i from s_{i-1},  s_i = f(s_{i-1}, y_{i-1}, c_i),  p(y_i) = g(s_i, y_{i-1}, c_i)

    Bahdanau, Cho and Bengio 2014, section 3.1. Their appendix reads out from s_{i-1}; equation 4,
    which is followed here, from s_i.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        gates = self.cell.gates * config.hidden_size
        self.context = Linear(config.annotation_size, gates, use_bias=False, rngs=rngs)
        inputs = config.hidden_size + config.embedding_size + config.annotation_size
        self.readout = make_readout(config, inputs, "maxout", rngs=rngs)

    def advance(
        self,
        state: PyTree,
        source: Source,
        projected: Array,
        within: Array | None = None,
        attending: Array | None = None,
    ) -> tuple:
        cell, memory = state
        memory, context, weights = self.attention(
            memory, self.cell.output(cell), source.projected, source.mask, attending
        )
        cell = self.cell(cell, projected + self.context(context), within)
        return (cell, memory), (self.cell.output(cell), context, weights)

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> Step:
        """The next state, the features to read the next word from, and the weights."""
        projected = self.cell.input(embedding)
        state, (hidden, context, weights) = self.advance(state, source, projected)
        return state, self.readout(hidden, embedding, context), weights[:, None]

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Array | None = None
    ) -> Steps:
        """The features and the alignment, given the words before each step."""
        entering, inside, leaving = split(rng, 3)
        embeddings = self.dropout(embeddings, entering)
        states, contexts, alignment = self._scan(embeddings, source, inside)
        return self.dropout(self.readout(states, embeddings, contexts), leaving), alignment


class Luong(Recurrent):
    """Attends from the new state: s_i = f(s_{i-1}, y_{i-1}), then h̃_i = tanh(W_c [c_i; s_i]).

    Luong, Pham and Manning 2015, section 3, equation 5, without input feeding: the states do not
    depend on the attention, so that all steps attend at once.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        self.combine = Linear(
            config.annotation_size + config.hidden_size,
            config.hidden_size,
            use_bias=False,
            rngs=rngs,
        )
        self.readout = make_readout(config, config.hidden_size, "linear", rngs=rngs)

    def _read(self, states: Array, contexts: Array) -> Array:
        return jnp.tanh(self.combine(contexts, states))

    def advance(
        self,
        state: PyTree,
        source: Source,
        projected: Array,
        within: Array | None = None,
        attending: Array | None = None,
    ) -> tuple:
        cell, memory = state
        cell = self.cell(cell, projected, within)
        hidden = self.cell.output(cell)
        memory, context, weights = self.attention(
            memory, hidden, source.projected, source.mask, attending
        )
        return (cell, memory), (self._read(hidden, context), weights)

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> Step:
        """The next state, the features to read the next word from, and the weights."""
        state, (read, weights) = self.advance(state, source, self.cell.input(embedding))
        return state, self.readout(read), weights[:, None]

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Array | None = None
    ) -> Steps:
        """The features and the alignment, given the words before each step."""
        entering, inside, attending, leaving = split(rng, 4)
        everywhere = jnp.ones(embeddings.shape[:2], bool)
        first, _ = self.start(source, embeddings.shape[1])
        embeddings = self.dropout(embeddings, entering)
        _, states = unroll(self.cell, embeddings, everywhere, first, inside)
        contexts, alignment = self.attention.over(states, source.projected, source.mask, attending)
        read = self.dropout(self._read(states, contexts), leaving)
        return self.readout(read), alignment[:, None]


class LuongInputFeeding(Luong):
    """Luong's decoder whose h̃ goes into the next state: s_i = f(s_{i-1}, [y_{i-1}; h̃_{i-1}]).

    h̃_0 = 0. Luong, Pham and Manning 2015, section 3.3.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        gates = self.cell.gates * config.hidden_size
        self.feed = Linear(config.hidden_size, gates, use_bias=False, rngs=rngs)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word, h̃_0 = 0 included."""
        cell, memory = super().start(source, length)
        return cell, memory, jnp.zeros_like(self.cell.output(cell))

    def advance(
        self,
        state: PyTree,
        source: Source,
        projected: Array,
        within: Array | None = None,
        attending: Array | None = None,
    ) -> tuple:
        *state, read = state
        projected = projected + self.feed(read)
        state, given = super().advance(tuple(state), source, projected, within, attending)
        return (*state, given[0]), given

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Array | None = None
    ) -> Steps:
        """The features and the alignment, given the words before each step."""
        entering, inside, leaving = split(rng, 3)
        read, alignment = self._scan(self.dropout(embeddings, entering), source, inside)
        return self.readout(self.dropout(read, leaving)), alignment
