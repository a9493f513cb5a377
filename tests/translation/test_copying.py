"""Words outside of the vocabulary that a model copies: from text to batches, and back to text."""

import jax
import numpy as np
import pytest

import attn_jax
from attn_jax.config import Model
from attn_jax.data.batches import TrainingPairs
from attn_jax.data.copying import copyable
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import Words
from attn_jax.errors import InputError
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS, PAD, UNK
from attn_jax.translation.translator import Translator
from tests.stages import full

ENGLISH, GERMAN = Words(["i", "am", "paris"]), Words(["ich", "bin", "paris"])  # 4, 5, 6
PARIS, V = 6, 7
SOURCES = ["i am zoe", "zoe am zoe <unk> paris", "i"]
TARGETS = ["ich bin zoe", "paris max zoe <unk>", "ich"]


def rows(copying=True):
    text = cut_pairs(map(Example, SOURCES, TARGETS), ("words", "words"))
    pairs = TrainingPairs(text, ENGLISH, GERMAN, 100, copying=copying)
    return pairs.batch(np.arange(3), 5, 5)


def test_a_word_that_the_vocabulary_lacks_is_the_place_where_it_first_stands():
    source, target, _ = rows()
    np.testing.assert_array_equal(source.words, rows(copying=False).source)
    np.testing.assert_array_equal(
        source.copies,
        [[V, V + 1, V + 2, PAD, PAD], [V, V + 1, V, UNK, PARIS], [V, PAD, PAD, PAD, PAD]],
    )
    np.testing.assert_array_equal(
        target,
        [[4, 5, V + 2, EOS, PAD], [PARIS, UNK, V, UNK, EOS], [4, EOS, PAD, PAD, PAD]],
    )


def test_text_that_is_translated_has_the_ids_of_training():
    (source, expected), words = rows()[:2], rows().source.words
    cut = [[vocabulary.cut(text).tokens for text in texts] for vocabulary, texts in
           ((ENGLISH, SOURCES), (GERMAN, TARGETS))]  # fmt: skip
    found, target = copyable(words, cut[0], GERMAN, cut[1])
    np.testing.assert_array_equal(found.copies, source.copies)
    np.testing.assert_array_equal(target, expected)


DECODERS = {"edits": "luong"}


def translator(*readouts):
    sizes = dict.fromkeys(("embedding_size", "annotation_size", "hidden_size"), 8)
    models = [
        initialize(
            Model(decoder=DECODERS.get(readout, "bahdanau"), readout=readout, **sizes),
            *(V, V, jax.random.key(seed)),
        )
        for seed, readout in enumerate(readouts)
    ]
    return Translator(models, ENGLISH, GERMAN)


@pytest.mark.parametrize(
    "readouts",
    [
        ("copynet",),
        pytest.param(("pointer_generator",), marks=full),
        pytest.param(("pointer", "pointer_generator"), marks=full),
        pytest.param(("edits", "copynet"), marks=full),
    ],
)
def test_what_is_found_scores_what_it_was_found_with(readouts):
    model = translator(*readouts)
    found = model.translate(SOURCES, beam_size=6, n_best=6, max_length=4)
    sources = [source for source, of in zip(SOURCES, found, strict=True) for _ in of]
    hypotheses = [hypothesis for of in found for hypothesis in of]
    scores = model.score(sources, hypotheses)
    np.testing.assert_allclose(scores, [one.log_probability for one in hypotheses], rtol=1e-4)
    assert any(set(one.tokens) & {"zoe", "am", "i"} for one in hypotheses)
    for source, hypothesis in zip(sources, hypotheses, strict=True):
        assert {*hypothesis.tokens} <= {*GERMAN.tokens, *source.split()}


@full
def test_an_export_copies_too(tmp_path):
    model = translator("copynet")
    attn_jax.export(model, tmp_path / "file", batch_size=2, source_length=5)
    exported = attn_jax.load_exported(tmp_path / "file").translate(SOURCES)
    assert [one.text for one in exported] == [one.text for one in model.translate(SOURCES)]


@full
def test_copying_explains_and_warms_up():
    model = translator("pointer_generator")
    model.warm_up([3], [2])
    (explained,) = model.explain(SOURCES[:1], TARGETS[:1])
    np.testing.assert_allclose(
        explained.log_probabilities.sum(), model.score(SOURCES[:1], TARGETS[:1]), rtol=1e-4
    )
    (posterior,) = model.align(SOURCES[:1], TARGETS[:1], of="posterior")
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-5)


def test_one_that_copies_and_one_that_does_not_have_no_common_words():
    with pytest.raises(InputError, match="other words"):
        translator("copynet", "maxout")
