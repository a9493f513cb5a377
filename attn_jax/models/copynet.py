"""CopyNet: a decoder that reads the annotations of the word that it copied."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key, PyTree

from attn_jax.config import Model
from attn_jax.models.copying import Scores
from attn_jax.models.decoders import Advanced, Bahdanau, Inputs
from attn_jax.models.linear import Linear
from attn_jax.models.marginal import LOW
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.readouts import make_readout


class Read(NamedTuple):
    """What is computed from the annotations once per sentence."""

    attended: PyTree  # keys and values
    annotations: Float[Array, "B S D"]  # of the first source
    keys: Float[Array, "B S H"]  # tanh(W_c h_j)


class CopyNet(Bahdanau):
    """s_i = f(s_{i-1}, [y_{i-1}; ζ_i], c_i), whose readout scores positions as well as words.

    ψ_c(x_j) = tanh(W_c h_j) · s_i is the score of copying position j. The selective read
    ζ_i = Σ_j ρ_ij h_j is over the positions of the previous word, with ρ_ij ∝ p(j, copied) of the
    previous step; it is 0 if that word is not in the source.

    Gu, Lu, Li and Li 2016, sections 3.2 and 3.3, equations 7 and 9. They attend and copy with
    different scores; so the weights that are shown are those of attention.
    """

    usual_readout = "copynet"

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        super().__init__(config, summary_size, rngs=rngs)
        size, gates = config.annotation_size, self.cell.gates * config.hidden_size
        self.copied = Linear(size, config.hidden_size, use_bias=False, rngs=rngs)
        self.selected = Linear(size, gates, use_bias=False, rngs=rngs)
        self.readout = make_readout(config, config.hidden_size, self.usual_readout, rngs=rngs)

    def project(self, encoded: Encoded) -> Read:
        """Keys and values, the annotations, and the keys of copying."""
        annotations, *_ = jax.tree.leaves(encoded.annotations)
        keys = jnp.tanh(self.copied(annotations))
        return Read(super().project(encoded), annotations, keys)

    def start(self, source: Source, length: int) -> PyTree:
        """The state before the first word, with the scores of copying."""
        return *super().start(source, length), jnp.zeros(source.first_mask.shape)

    def known(self, embeddings: Float[Array, "*T B E"], source: Source) -> Inputs:
        """What is known of a step, or of all steps, with the positions of the previous word."""
        previous = source.previous if embeddings.ndim == 2 else source.previous.T
        return (
            super()
            .known(embeddings, source)
            ._replace(copied=(source.copies == previous[..., None]) & source.first_mask)
        )

    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        *state, scores = state
        read: Read = source.projected
        # Where none stands, the softmax of equal scores is multiplied with 0.
        shares = jax.nn.softmax(jnp.where(inputs.copied, scores, LOW)) * inputs.copied
        selected = jnp.einsum("bs,bsd->bd", shares, read.annotations)
        inputs = inputs._replace(words=inputs.words + self.selected(selected))
        attending = source._replace(projected=read.attended)
        state, ((output, _), weights) = super().advance(attending, tuple(state), inputs)
        scores = jnp.einsum("bsh,bh->bs", read.keys, output)
        scores = jnp.where(source.first_mask, scores, LOW)
        return (*state, scores), ((output, scores), weights)

    def features(
        self, outputs: PyTree, embeddings: Array, rng: Key[Array, " B"] | None = None
    ) -> Scores:
        """The state, with dropout, and the scores of positions."""
        output, scores = outputs
        return Scores(self.dropout(output, rng), scores)
