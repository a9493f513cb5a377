"""Models that are made to attend otherwise, which tells whether it matters where they look."""

import jax

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.scores import Mean
from attn_jax.models.seq2seq import Seq2Seq


def with_uniform_weights(model: Seq2Seq) -> Seq2Seq:
    """The same model, with the same arrays, whose heads attend to all source words alike.

    What is summed, and what becomes of the sum, stays as it was. Wiegreffe and Pinter 2019, section
    3.2, train such a model; here one is used that has learned its weights.
    """
    model = jax.tree.map(lambda leaf: leaf, model)
    for attention in model.attentions:
        learned = attention.mechanism
        attention.mechanism = Mechanism(Mean(), values=learned.values, gate=learned.gate)
        attention.mixing = Apart()
    return model
