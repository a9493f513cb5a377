"""The decoder of posterior attention, which reads where the previous word came from."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from attn_jax.config import Model
from attn_jax.models.hidden_markov import shown
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW, Steps
from attn_jax.models.over_positions import LuongOverPositions
from attn_jax.models.protocols import Source
from attn_jax.models.randomness import split, split_stacked


class Known(NamedTuple):
    """What is known of a step; or of all, with an axis T before the others.

    The random keys are given in training alone.
    """

    vectors: Float[Array, "B G"]  # of the previous words, projected
    words: Int[Array, " B"]  # the previous words
    rng_cell: Key[Array, " B"] | None = None
    rng_attention: Key[Array, " B"] | None = None
    rng_out: Key[Array, " B"] | None = None


class FedWithPosterior(LuongOverPositions):
    """s_i = f(s_{i-1}, [y_{i-1}; c_{i-1}]), c_i = Σ_j p(a_i = j | y_≤i, x) h_j, c_0 = 0.

    Of two sources, c is of the first alone. The state is that of the cell, the memory of attention,
    and what the probabilities of the previous step were computed from. See `Posterior`.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        gates = self.cell.gates * config.hidden_size
        self.feed = Linear(self.attention.sizes[0], gates, use_bias=False, rngs=rngs)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word, of which no position is possible."""
        nothing = jnp.zeros_like(source.projected.features[:, 0])
        nowhere = jnp.full(source.first_mask.shape, LOW)
        before = Steps(nothing, nothing, nowhere, nowhere, None, None, jnp.zeros_like(nowhere))
        return *super().start(source, length), before

    def _advance(self, source: Source, state: PyTree, known: Known) -> tuple[PyTree, tuple]:
        """The next state; and what the readout takes, with the weights of each head."""
        hidden, memory, before = state
        log_posterior = self.readout.posterior(source.words, known.words, source, before)
        fed = jnp.einsum("bs,bso->bo", jnp.exp(log_posterior), source.projected.own)
        query = self.cell.output(hidden)
        hidden = self.cell(hidden, known.vectors + self.feed(fed), known.rng_cell)
        output = self.cell.output(hidden)
        query = query if self.readout.asks_before else output
        memory, context, weights = self.attention.step(
            memory, query, source.projected.attended, source.mask, known.rng_attention
        )
        steps = self._steps(output, context, weights[:, 0], source, known.rng_out)
        prior = self.readout.prior(log_posterior, steps.log_weights)
        steps = self.readout.normalized(source.words, source, steps._replace(log_prior=prior))
        weights = shown(prior, weights[:, None], source)[:, 0]
        return (hidden, memory, steps), (steps, weights)

    def step(self, state: PyTree, embedding: Float[Array, "B E"], source: Source) -> tuple:
        """The next state, what the readout takes, and the weights."""
        known = Known(self.inputs(embedding), source.previous)
        state, (steps, weights) = self._advance(source, state, known)
        return state, steps, weights[:, None]

    def __call__(
        self, embeddings: Float[Array, "B T E"], source: Source, rng: Key[Array, " B"] | None = None
    ) -> tuple:
        """What the readout takes and the weights at all steps, which are one after another.

        `embeddings` are the vectors of the previous word at each step.
        """
        rng_in, rng_cell, rng_attention, rng_out = split(rng, 4)
        embeddings, count = self.dropout(embeddings, rng_in), embeddings.shape[1]
        known = Known(
            self.inputs(jnp.swapaxes(embeddings, 0, 1)),
            source.previous.T,
            self.dropout.steps(rng_cell, count, len(self.cell.cells)),
            split_stacked(rng_attention, count),
            self.dropout.steps(rng_out, count, 2),  # of features, whatever the number of layers
        )
        first = self.start(source, count)
        _, made = self.forms.scan(type(self)._advance, (self, source), first, known)
        steps, weights = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), made)
        return steps, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 1, 2)[:, None], weights)
