"""Luong's decoder for a readout over positions: it reads each position instead of their mean."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from attn_jax.attention.gates import Ungated
from attn_jax.attention.sources import Hierarchical
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.decoders import Luong
from attn_jax.models.marginal import Steps, logarithm
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.randomness import split


class OfPositions(NamedTuple):
    """What is computed from the annotations once per sentence."""

    attended: PyTree  # keys and values
    features: Float[Array, "B S F"]  # W_c c_j, c_j the context if all weight is on position j
    moves: PyTree[Float[Array, "B S M"]]  # the part of c_j in the scores of moves, or None


class LuongOverPositions(Luong):
    """s_i = f(s_{i-1}, y_{i-1}), then h̃_ij = tanh(W_c [c_j; s_i]) for each position j.

    Luong, Pham and Manning 2015, section 3, without input feeding: neither states nor scores depend
    on earlier alignments, so that these can be summed over. The weights are α_ij, of one head.

    Raises:
      InputError: the weights of the mechanism are no probabilities of positions.
    """

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        sums = f"model.readout={config.readout} sums over the positions of a step"
        if config.heads > 1:
            raise InputError(
                f"{sums}, of which each head would have its own: leave out model.heads"
            )
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
        if isinstance(config.sources, Hierarchical):
            raise InputError(
                f"{sums} of the first source, which model.sources=hierarchical mixes with the "
                "second: give model.sources=concatenated or flat"
            )
        super().__init__(config, summary_size, rngs=rngs)

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
        hidden = self.cell(hidden, self.cell.input(embedding))
        output = self.cell.output(hidden)
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
        return Steps(of_states, kept, log_weights, log_weights, self.readout.of_states(outputs))

    def _matrices(self) -> list[Array]:
        """The parts of W_c, for the context of a position and for all else that is read."""
        return jnp.split(self.combine.kernel[...], [self.attention.sizes[0]])
