"""Syntactic attention: annotations drive the decoder, and words are predicted from words alone."""

from typing import NamedTuple

import jax
from flax import nnx
from jaxtyping import Array, Float, PyTree

from attn_jax.attention.sources import Combined
from attn_jax.config import Model
from attn_jax.errors import InputError
from attn_jax.models.decoders import Advanced, Inputs, Recurrent
from attn_jax.models.protocols import Encoded, Source
from attn_jax.models.readouts import make_readout
from attn_jax.models.stacks import make_stack


class FormsAndMeanings(NamedTuple):
    """What is computed once per sentence."""

    forms: PyTree  # keys and values
    meanings: Float[Array, "B S E"]  # the word vectors x_j


class Syntactic(Recurrent):
    """α_i from s_{i-1},  s_i = f(s_{i-1}, Σ_j α_ij h_j),  p(y_i) from Σ_j α_ij x_j alone.

    The word vectors x_j know nothing of their neighbours, and the state knows nothing of the words
    that were written. With several heads, α_ij is their mean.

    What the paper and its program have, and what is here:
    - h_j from word vectors of a second table; one table serves both.
    - An encoder of two bidirectional layers, of which the second reads [→h_{j-1}; ←h_{j+1}] of the
      first, the states beside word j, and learned vectors at both ends; any encoder.
    - e_ij = s_{i-1} · h_j; any score. Theirs is `dot`, with `hidden_size` equal to
      `annotation_size`.
    - Only the first query is made from the encoder's last states, by max(0, W h + b), and the
      network f begins with zeros; f begins with `model.first_state`, which is the first query too.

    Russin, Jo, O'Reilly and Bengio 2019, section 3, equations 3 to 6.

    Raises:
      InputError: there are two sources in two rows.
    """

    usual_readout = "linear"

    def __init__(self, config: Model, summary_size: int, *, rngs: nnx.Rngs):
        if isinstance(config.sources, Combined):
            raise InputError(
                "model.decoder=syntactic predicts words from the word vectors of one row: give "
                "model.sources=flat"
            )
        super().__init__(config, summary_size, rngs=rngs)
        # Its inputs are contexts instead of the previous words.
        self.cell = make_stack(
            config, self.attention.size, config.hidden_size, config.decoder_layers, rngs=rngs
        )
        self.readout = make_readout(config, config.embedding_size, self.usual_readout, rngs=rngs)

    def project(self, encoded: Encoded) -> FormsAndMeanings:
        """The keys and values of the annotations, and the word vectors."""
        return FormsAndMeanings(super().project(encoded), encoded.vectors)

    def inputs(self, embeddings: Float[Array, "*any E"]) -> Float[Array, "*any E"]:
        """The vectors of the previous words, which are not read."""
        return embeddings

    def advance(self, source: Source, state: PyTree, inputs: Inputs) -> tuple[PyTree, Advanced]:
        hidden, memory = state
        forms, meanings = source.projected
        memory, context, weights = self.attention.step(
            memory, self.cell.output(hidden), forms, source.mask, inputs.rng_attention
        )
        alignment = jax.tree.leaves(weights)[0].mean(axis=1)[:, None, None]  # as of one head
        meaning = self.forms.mixture(alignment, meanings[:, None])[:, 0, 0]
        hidden = self.cell(hidden, self.cell.input(context), inputs.rng_cell)
        return (hidden, memory), (meaning, weights)
