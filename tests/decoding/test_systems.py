"""Decoding with every system of the repository, against the forced pass over all sentences.

The forced pass runs on other batches with other padding, so results must not depend on these.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.decoding.decode import decode
from attn_jax.decoding.ensemble import COMBINATIONS
from attn_jax.decoding.forced import force
from attn_jax.decoding.options import Search
from attn_jax.tokens import PAD, UNK
from tests.decoding.tables import all_sentences
from tests.models.test_seq2seq import MODELS, SOURCE, make, name_of, source_of
from tests.stages import few, slow

SIZE, LIMIT = 6, 3  # tokens in the target vocabulary, and in the longest sentence with its end
SENTENCES = list(all_sentences(SIZE, LIMIT))
EVERYTHING = Search(beam_size=36, n_best=len(SENTENCES), length_penalty="none")


def run(models, search, combination="log_probabilities"):
    rows = np.pad(source_of(models[0]), ((0, 1), (0, 0)))  # the last row only fills the batch
    rngs = jax.random.split(jax.random.key(0), len(rows)) if search.temperature else None
    return decode(models, rows, rngs, combination=combination, search=search, longest=LIMIT - 1)


def forced(models, combination="log_probabilities"):
    """Log-probabilities [3, n, T] and weights [3, n, ...] of all n sentences for each source."""
    target = np.array([sentence + [PAD] * (LIMIT + 1 - len(sentence)) for sentence in SENTENCES])
    source = np.repeat(np.pad(source_of(models[0]), ((0, 0), (0, 4))), len(SENTENCES), axis=0)
    target = np.tile(target, (len(SOURCE), 1))
    found = force(models, jnp.asarray(source), jnp.asarray(target), combination=combination)
    shape = len(SOURCE), len(SENTENCES)
    weights = np.array(found.weights)[..., :LIMIT, : SOURCE.shape[1]]
    log_probabilities = np.array(found.log_probabilities).reshape(*shape, -1)
    return log_probabilities, weights.reshape(*shape, *weights.shape[1:])


def written(tokens):
    """The ids of a sentence without padding."""
    return [int(token) for token in tokens if token != PAD]


def check(found, log_probabilities, weights):
    """Checks that hypotheses are all sentences, sorted by probability, with their weights."""
    for row, totals in enumerate(log_probabilities.sum(axis=-1)):
        expected = -np.sort(-totals)
        np.testing.assert_allclose(found.log_probability[row], expected, rtol=1e-5, atol=1e-5)
        sentences = list(map(written, np.array(found.tokens[row])))
        assert sorted(sentences) == sorted(SENTENCES)
        for nth, sentence in enumerate(sentences):
            steps, index = len(sentence), SENTENCES.index(sentence)
            own = np.array(found.weights[row, nth, :, :, :steps])
            expected = weights[row, index, :, :, :steps]
            np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-6)
    assert not np.any(np.isfinite(found.score[len(SOURCE) :]))


def greedily(log_probabilities):
    """The sentence made by choosing the most probable next word each time."""
    sentence = []
    while sentence not in SENTENCES:
        step = len(sentence)
        following = {
            other[step]: own[step]
            for other, own in zip(SENTENCES, log_probabilities, strict=True)
            if other[:step] == sentence
        }
        sentence = [*sentence, max(following, key=following.get)]
    return sentence


# What makes the annotations, and what attends to them, matters little for a search.
@pytest.mark.parametrize("options", few(MODELS, ("decoder", "readout")), ids=name_of)
def test_search_finds_what_the_forced_pass_says(options):
    models = (make(target_size=SIZE, **options),)
    log_probabilities, weights = forced(models)
    check(run(models, EVERYTHING), log_probabilities, weights)
    found = run(models, Search())
    for row, own in enumerate(log_probabilities):
        assert written(found.tokens[row, 0]) == greedily(own)


@pytest.mark.parametrize(
    "combination", [pytest.param("log_probabilities", marks=slow), "probabilities"]
)
def test_an_ensemble_is_its_mean(combination):
    """Of a recurrent model and a Transformer with more heads, which are also forced separately."""
    models = (
        make(target_size=SIZE, decoder="bahdanau", annotation_size=22),
        make(target_size=SIZE, seed=2, decoder="transformer", heads=2, decoder_layers=2),
    )
    log_probabilities, weights = forced(models, combination)
    check(run(models, EVERYTHING, combination), log_probabilities, weights)
    first, second = (forced((model,)) for model in models)
    expected = np.concatenate([first[1], second[1].mean(axis=3, keepdims=True)], axis=2)
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)
    if combination == "probabilities":
        mean = np.log((np.exp(first[0]) + np.exp(second[0])) / 2)
        real = np.array([np.arange(LIMIT + 1) < len(s) for s in SENTENCES])
        np.testing.assert_allclose(log_probabilities[:, real], mean[:, real], rtol=1e-5, atol=1e-5)


def test_the_geometric_mean_is_normalised():
    logits = np.log([[[0.5, 0.25, 0.25]], [[0.125, 0.5, 0.375]]])
    expected = np.sqrt([0.0625, 0.125, 0.09375])
    found = np.exp(COMBINATIONS["log_probabilities"](jnp.asarray(logits)))
    np.testing.assert_allclose(found[0], expected / expected.sum(), rtol=1e-6)


def test_drawn_sentences_have_their_log_probability():
    models = (make(target_size=SIZE, decoder="luong_input_feeding"),)
    log_probabilities, _ = forced(models)
    found = run(models, Search(temperature=1.5, n_best=5))
    for row, totals in enumerate(log_probabilities.sum(axis=-1)):
        for nth in range(5):
            expected = totals[SENTENCES.index(written(found.tokens[row, nth]))]
            np.testing.assert_allclose(found.log_probability[row, nth], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 36},
        *(pytest.param(each, marks=slow) for each in ({"n_best": 1}, {"temperature": 1.5})),
    ],
)
def test_a_forbidden_word_is_never_written_and_the_others_keep_their_probability(options):
    models = make(target_size=SIZE), make(target_size=SIZE, seed=7, decoder="transformer")
    log_probabilities, _ = forced(models)
    known = [UNK not in sentence for sentence in SENTENCES]
    search = Search(**{"length_penalty": "none", "n_best": sum(known), **options})
    usual = run(models, search)
    assert np.any(usual.tokens == UNK)
    found = run(models, dataclasses.replace(search, unknown="forbid"))
    for row, totals in enumerate(log_probabilities.sum(axis=-1)):
        sentences = list(map(written, np.array(found.tokens[row])))
        assert not any(UNK in sentence for sentence in sentences)
        own = [totals[SENTENCES.index(sentence)] for sentence in sentences]
        np.testing.assert_allclose(found.log_probability[row], own, rtol=1e-5, atol=1e-5)
        if search.beam_size > 1:
            np.testing.assert_allclose(own, -np.sort(-totals[known]), rtol=1e-5, atol=1e-5)
        elif not search.temperature:
            without = [
                np.where(np.array(sentence) == UNK, -np.inf, steps[: len(sentence)])
                for sentence, steps in zip(SENTENCES, log_probabilities[row], strict=True)
            ]
            assert sentences == [greedily(without)]
