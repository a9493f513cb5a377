"""Initial parameters as in the papers."""

import jax
import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.models.seq2seq import initialize
from attn_jax.training.checkpoints import named_leaves
from tests.options import model_options
from tests.stages import few

SIZES = {"embedding_size": 61, "annotation_size": 94, "hidden_size": 59, "units": 53}


def make(**options):
    config = model_options(**(SIZES | options))
    # Its operations, which the models share, are compiled sooner than each model as a whole.
    return initialize.__wrapped__(config, 67, 71, jax.random.key(0))


def drawn(values, deviation):
    """Whether some thousand values have about mean zero and the given standard deviation."""
    values = np.asarray(values)
    return abs(values.mean()) < deviation / 10 and abs(values.std() / deviation - 1) < 0.05


def test_rnnsearch():
    model = make(initialization="rnnsearch", cell="gru_reset_first")
    score = mechanism(model)["score"]
    assert not np.any(score["v"])
    assert drawn(score["W"], 0.001)
    assert drawn(score["U"], 0.001)
    cells = [model.decoder.cell.cells[0], model.encoder.layers[0].backward.cells[0]]
    for cell in cells:
        units = cell.candidate.in_features
        for matrix in (
            *np.split(cell.recurrent.kernel[...], 2, axis=1),
            cell.candidate.kernel[...],
        ):
            np.testing.assert_allclose(matrix @ matrix.T, np.eye(units), atol=1e-5)
        assert drawn(cell.input.kernel[...], 0.01)
        assert not np.any(cell.input.bias[...])
    linears = model.decoder.context, model.decoder.readout.linear, model.words.output
    for matrix in (*(linear.kernel for linear in linears), model.words.source_words.embedding):
        assert drawn(matrix[...], 0.01)
    assert not np.any(model.decoder.readout.linear.bias[...])


def test_luong():
    model = make(initialization="luong", cell="lstm", decoder="luong_input_feeding")
    for leaf in jax.tree.leaves(model):
        assert np.all(np.abs(leaf) <= 0.1)
    everything = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])
    assert drawn(everything, 0.1 / np.sqrt(3))


def mechanism(model):
    """The first parameters of the score, the window and the normalizer."""
    return model.decoder.attention.parameters.get_value()


def test_both_scores_of_a_pair_begin_as_one_does():
    score = mechanism(make(initialization="rnnsearch", normalizer="mocha"))["score"]
    for name in ("W", "U"):
        first, second = score["first"][name], score["second"][name]
        assert drawn(first, 0.001)
        assert drawn(second, 0.001)
        assert np.all(first != second)
    assert not np.any([score["first"]["v"], score["second"]["v"]])


def test_a_window_begins_like_other_layers():
    """The alignment model of the paper is the score alone."""
    window = mechanism(make(initialization="rnnsearch", window="local_p"))["window"]
    assert drawn(window["W"], 0.01)
    assert not np.any(window["v"])


MECHANISMS = [
    {"score": "additive", "window": "local_p"},
    {"score": "concat", "normalizer": "mocha"},
    {"score": "cosine", "normalizer": "monotonic"},
    {"score": "location_aware"},
    {"score": "gmm"},
    {"score": "projected(general)"},
]


@pytest.mark.parametrize("options", few(MECHANISMS), ids=lambda options: "-".join(options.values()))
def test_what_the_papers_do_not_have_begins_as_the_mechanism_says(options):
    """Of a mechanism, the papers have W, U and v."""
    usual = named_leaves(make(**options).decoder.attention)
    redrawn = {
        rule: named_leaves(make(initialization=rule, **options).decoder.attention)
        for rule in ("rnnsearch", "luong")
    }
    assert usual
    for name, first in usual.items():
        for rule, leaves in redrawn.items():
            changed = np.asarray(leaves[name]) != np.asarray(first)
            if name.rpartition(".")[2] in ("W", "U", "v"):
                assert changed.all(), (rule, name)
            else:
                assert not changed.any(), (rule, name)


def test_the_bias_of_tied_words_is_a_bias():
    sizes = {"embedding_size": 7, "readout_size": 7}
    model = make(initialization="rnnsearch", embeddings="tied", **sizes)
    assert not np.any(model.words.output[...])


def test_norms_begin_as_they_are():
    model = make(initialization="luong", decoder="transformer")
    assert np.all(model.decoder.blocks[0].feed_forward.residual.norm.scale[...] == 1)
    assert np.any(model.decoder.blocks[0].feed_forward.widen.kernel[...] != 0)


def test_an_unknown_one():
    with pytest.raises(InputError, match="allowed: standard, rnnsearch, luong"):
        make(initialization="zero")
