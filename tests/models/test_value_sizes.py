"""The lengths of what heads sum, against loops in float64."""

import jax
import numpy as np
import pytest

from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import PAD
from tests.models import oracle
from tests.models.arithmetic import double, linear
from tests.models.test_seq2seq import BOTH, SOURCE, make

MODELS = [
    {"decoder": "bahdanau"},
    {"decoder": "bahdanau", "heads": 2, "head_size": 3, "projection": "affine"},
    {"decoder": "luong", "readout": "linear", "values": "key_value"},
    {"decoder": "luong_input_feeding", "heads": 4, "key_value_heads": 2, "head_size": 3},
    {"decoder": "transformer", "heads": 2, "self_heads": 2, "decoder_layers": 2},
]


def expected(model, attention, source):
    """Of each head and position, [N, S]."""
    annotations, *_ = oracle.encode(model, source)
    _, summed = oracle.compared_and_summed(attention, annotations, None)
    projections = attention.projections
    if not hasattr(projections, "values"):
        added = np.array(summed)
        if attention.sums_values and hasattr(model.decoder, "combine"):
            added = added @ double(model.decoder.combine.kernel)[: added.shape[1]]
        return np.linalg.norm(added, axis=1)[None]
    heads, groups = projections.shape
    size, sizes = projections.sizes.C, []
    for n in range(heads * groups):
        of_value = slice(n // groups * size, (n // groups + 1) * size)
        rows = double(projections.output.kernel)[n * size : (n + 1) * size]
        sizes.append(
            [np.linalg.norm(linear(projections.values, v)[of_value] @ rows) for v in summed]
        )
    return np.array(sizes)


@pytest.mark.parametrize(
    "options", MODELS, ids=lambda options: "-".join(map(str, options.values()))
)
def test_equal_a_loop_over_heads_and_positions(options):
    model = make(**options)
    encoded = jax.jit(Seq2Seq.encode)(model, SOURCE)
    found = model.value_sizes(encoded)
    layers = options.get("decoder_layers", 1)
    assert found.shape[:2] == (len(SOURCE), layers)
    for row, source in enumerate(SOURCE):
        words = [word for word in source if word != PAD]
        for layer, attention in enumerate(model.attentions):
            actual = found[row, layer, :, : len(words)]
            np.testing.assert_allclose(actual, expected(model, attention, words), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({"decoder": "luong", "readout": "marginal"}, SOURCE),
        ({"decoder": "luong", "sources": "concatenated"}, BOTH),
    ],
    ids=["marginal", "two sources"],
)
def test_where_no_values_are_summed_there_are_none(options, source):
    model = make(**options)
    assert model.value_sizes(jax.jit(Seq2Seq.encode)(model, source)) is None
