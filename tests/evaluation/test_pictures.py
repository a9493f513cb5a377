"""What else an evaluation keeps of the first sentences, for pages."""

import jax
import numpy as np
import pytest

from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Symbols
from attn_jax.evaluation.assess import Assessment, assess
from attn_jax.evaluation.pictures import pictures
from attn_jax.models.seq2seq import initialize
from attn_jax.translation.translator import Translator
from tests.options import model_options

EXAMPLES = [Example("a b", "b a"), Example("c", "c"), Example("a", "a")]


@pytest.mark.parametrize(
    ("readout", "kinds"),
    [
        ("linear", {"arr", "reference", "sizes"}),
        ("marginal", {"arr", "reference", "posterior", "reference_posterior"}),
    ],
)
def test_what_is_kept_is_of_the_first_sentences(readout, kinds):
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    config = model_options(decoder="luong", readout=readout, **sizes)
    symbols = Symbols(["a", "b", "c"])
    model = initialize(config, len(symbols), len(symbols), jax.random.key(0))
    translator = Translator([model], symbols, symbols)
    assessment = assess(translator, EXAMPLES, "none", {}, pictured=2)
    found = pictures(translator, assessment)
    assert found.keys() == kinds
    assert [[*arrays] for arrays in found.values()] == [[0, 1]] * len(kinds)
    sources, targets = (
        [getattr(one, name) for one in EXAMPLES[:2]] for name in ("source", "target")
    )
    references = translator.force(sources, targets)
    for weights, forced in zip(found["reference"].values(), references, strict=True):
        np.testing.assert_allclose(weights, forced.weights, rtol=1e-5, atol=1e-6)
    if readout == "linear":
        assert [one.shape for one in found["sizes"].values()] == [(1, 1, 1, 2), (1, 1, 1, 1)]
        return
    said = [one.hypothesis for one in assessment.pictured.values()]
    for name, texts in (("posterior", said), ("reference_posterior", targets)):
        whole = translator.align(sources, texts, of="posterior")
        for one, expected in zip(found[name].values(), whole, strict=True):
            np.testing.assert_allclose(one, expected[: len(one)], rtol=1e-4, atol=1e-6)
    shapes = [one.weights.shape[2:] for one in said]  # some without an end of the sentence
    assert [one.shape for one in found["posterior"].values()] == shapes


def test_self_attention_is_kept_of_what_was_written():
    parts = dict.fromkeys(("encoder", "decoder"), "transformer")
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    config = model_options(**parts, **sizes, feedforward_size=8, self_heads=2, encoder_layers=2)
    symbols = Symbols(["a", "b", "c"])
    model = initialize(config, len(symbols), len(symbols), jax.random.key(0))
    translator = Translator([model], symbols, symbols)
    assessment = assess(translator, EXAMPLES, "none", {}, pictured=2)
    found = pictures(translator, assessment)
    assert found.keys() == {"arr", "reference", "sizes", "encoder", "decoder"}
    for nth, (hypothesis, _) in assessment.pictured.items():
        words, steps = len(hypothesis.source.tokens), hypothesis.weights.shape[2]
        assert found["encoder"][nth].shape == (2, 2, words, words)
        assert found["decoder"][nth].shape == (1, 2, steps, steps)
        np.testing.assert_allclose(found["encoder"][nth].sum(axis=3), 1, rtol=1e-5)
        np.testing.assert_allclose(found["decoder"][nth].sum(axis=3), 1, rtol=1e-5)
        assert not np.triu(found["decoder"][nth], 1).any()
        (alone,) = translator.self_attention([hypothesis.source], [hypothesis])
        np.testing.assert_allclose(found["encoder"][nth], alone.encoder, rtol=1e-5, atol=1e-6)


def test_without_sentences_nothing_is_kept():
    assert pictures(None, Assessment({}, {}, [], [], {})) == {}
