"""Decoders: in which order a decoder attends, moves its state and reads out.

Every decoder has the same three methods: `start` gives the state before the first word, `step` does
one word, and the call does all words of known targets at once, equal to its steps. The call keeps
out of its scan all that need not wait for the state before.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from attn_jax.attention.scores import Sizes
from attn_jax.config import Model
from attn_jax.errors import choose
from attn_jax.models.attention import Attention, Source
from attn_jax.models.readouts import READOUTS
from attn_jax.models.recurrent import GRU, unroll


class Recurrent(nnx.Module):
    """What the recurrent decoders share: attention, cell and first state."""

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        sizes = Sizes(config.hidden_size, config.annotation_size, config.alignment_size)
        self.attention = Attention(config.score, sizes, rngs=rngs)
        self.initial = nnx.Linear(summary_size, config.hidden_size, rngs=rngs)
        self.cell = GRU(config.embedding_size, config.hidden_size, rngs=rngs)

    def start(self, source: Source) -> Float[Array, "B Q"]:
        """s_0 = tanh(W_s · summary). Bahdanau, Cho and Bengio 2014, appendix A.2.2."""
        return jnp.tanh(self.initial(source.summary))


class Bahdanau(Recurrent):
    """RNNsearch: attends from the state before, moves the state, reads out.

    c_i from s_{i-1},  s_i = f(s_{i-1}, y_{i-1}, c_i),  p(y_i) = g(s_i, y_{i-1}, c_i)

    Bahdanau, Cho and Bengio 2014, section 3.1. Their appendix reads out from s_{i-1}; equation 4,
    which is followed here, from s_i.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        self.context = nnx.Linear(
            config.annotation_size, 3 * config.hidden_size, use_bias=False, rngs=rngs
        )
        inputs = config.hidden_size + config.embedding_size + config.annotation_size
        readout = choose(READOUTS, config.readout, "readout")
        self.readout = readout(inputs, config.readout_size, rngs=rngs)

    def _advance(self, state: Array, projected: Array, source: Source):
        context, weights = self.attention(state, source)
        state = self.cell(state, projected + self.context(context))
        return state, (state, context, weights)

    def step(
        self, state: Float[Array, "B Q"], embedding: Float[Array, "B E"], source: Source
    ) -> tuple[Float[Array, "B Q"], Float[Array, "B F"], Float[Array, "B S"]]:
        """The next state, the features to read the next word from, and the weights."""
        state, (_, context, weights) = self._advance(state, self.cell.input(embedding), source)
        return state, self.readout(state, embedding, context), weights

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source
    ) -> tuple[Float[Array, "B T F"], Float[Array, "B T S"]]:
        """The features and the alignment, given the words before each step."""
        projected = jnp.swapaxes(self.cell.input(embeddings), 0, 1)
        _, steps = jax.lax.scan(
            lambda state, inputs: self._advance(state, inputs, source),
            self.start(source),
            projected,
        )
        states, contexts, alignment = (jnp.swapaxes(x, 0, 1) for x in steps)
        return self.readout(states, embeddings, contexts), alignment


class Luong(Recurrent):
    """Attends from the new state: s_i = f(s_{i-1}, y_{i-1}), then h̃_i = tanh(W_c [c_i; s_i]).

    Luong, Pham and Manning 2015, section 3, equation 5, without input feeding: the states do not
    depend on the attention, so that all steps attend at once.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        self.combine = nnx.Linear(
            config.annotation_size + config.hidden_size,
            config.hidden_size,
            use_bias=False,
            rngs=rngs,
        )
        readout = choose(READOUTS, config.readout, "readout")
        self.readout = readout(config.hidden_size, config.readout_size, rngs=rngs)

    def _features(self, states: Array, contexts: Array) -> Array:
        return self.readout(jnp.tanh(self.combine(jnp.concatenate([contexts, states], axis=-1))))

    def step(
        self, state: Float[Array, "B Q"], embedding: Float[Array, "B E"], source: Source
    ) -> tuple[Float[Array, "B Q"], Float[Array, "B F"], Float[Array, "B S"]]:
        """The next state, the features to read the next word from, and the weights."""
        state = self.cell(state, self.cell.input(embedding))
        context, weights = self.attention(state, source)
        return state, self._features(state, context), weights

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source
    ) -> tuple[Float[Array, "B T F"], Float[Array, "B T S"]]:
        """The features and the alignment, given the words before each step."""
        everywhere = jnp.ones(embeddings.shape[:2], bool)
        states = unroll(self.cell, self.cell.input(embeddings), everywhere, self.start(source))
        attend = jax.vmap(self.attention, in_axes=(1, None), out_axes=1)
        contexts, alignment = attend(states, source)
        return self._features(states, contexts), alignment


DECODERS: dict[str, type[nnx.Module]] = {"bahdanau": Bahdanau, "luong": Luong}
