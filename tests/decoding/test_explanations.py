"""What predictions depend on, against loops in float64 over sentences and steps."""

import jax
import numpy as np
import pytest
import scipy.special

from attn_jax.decoding.explanations import explain
from attn_jax.models.seq2seq import with_uniform_weights
from attn_jax.tokens import BOS, PAD
from tests.models import oracle
from tests.models.test_seq2seq import SOURCE, TARGET, make
from tests.stages import few

MODELS = [
    {
        "encoder": "bidirectional",
        "decoder": "bahdanau",
        "heads": 2,
        "head_size": 3,
        "mixing": "talking_heads",
    },
    {"decoder": "luong", "readout": "linear", "values": "key_value"},
    {"decoder": "luong_input_feeding", "cell": "lstm"},
    {
        "encoder": "transformer",
        "decoder": "transformer",
        "heads": 2,
        "self_heads": 2,
        "hidden_size": 20,
        "decoder_layers": 2,
    },
]


@pytest.fixture(
    scope="module", params=few(MODELS, seen=("encoder",)), ids=lambda options: options["decoder"]
)
def explained(request):
    """A model, the name of its decoder, and its explained predictions."""
    model = make(**request.param)
    found = jax.device_get(explain((model,), SOURCE, TARGET, combination="probabilities"))
    return model, request.param["decoder"], found


def real(ids):
    return [one for one in ids if one != PAD]


def log_probabilities(model, decoder, row):
    """Those of the target words of a sentence by the loop, [T], and its weights [T, S]."""
    target = real(TARGET[row])
    logits, weights = oracle.decode(model, decoder, real(SOURCE[row]), [BOS, *target[:-1]])
    of_words = scipy.special.log_softmax(logits, axis=-1)
    return of_words[np.arange(len(target)), target], weights.mean(axis=(0, 1))


def hiding(monkeypatch, step, place, steps):
    """Lets the loop attend at one step as if there were no such place."""
    plain, calls = oracle.attend, []

    def attend(attention, s, annotations, words):
        calls.append(s)
        if (len(calls) - 1) % steps != step:  # of a layer, one step follows another
            return plain(attention, s, annotations, words)
        left = np.delete(annotations, place, axis=0), np.delete(words, place, axis=0)
        context, weights = plain(attention, s, *left)
        return context, np.insert(weights, place, 0, axis=1)

    monkeypatch.setattr(oracle, "attend", attend)


def hidden(model, decoder, row, step, place):
    """The log-probability of one target word by the loop if a place is hidden at its step."""
    with pytest.MonkeyPatch.context() as patch:
        hiding(patch, step, place, len(real(TARGET[row])))
        return log_probabilities(model, decoder, row)[0][step]


ROWS = [0, 1]  # the last sentence has one word


@pytest.mark.parametrize("row", ROWS)
def test_equals_a_loop_that_does_not_see_the_word_with_the_largest_weight(explained, row):
    model, decoder, found = explained
    usual, weights = log_probabilities(model, decoder, row)
    steps = len(usual)
    np.testing.assert_allclose(found.log_probabilities[row, :steps], usual, rtol=1e-5, atol=1e-5)
    for step in range(steps):
        expected = hidden(model, decoder, row, step, weights[step].argmax())
        assert found.without_most[row, step] == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("row", ROWS)
def test_the_random_word_is_another_one(explained, row):
    model, decoder, found = explained
    _, weights = log_probabilities(model, decoder, row)
    drawn = []
    for step, of_step in enumerate(weights):
        others = [place for place in range(len(of_step)) if place != of_step.argmax()]
        possible = [hidden(model, decoder, row, step, place) for place in others]
        apart = np.abs(found.without_random[row, step] - possible)
        assert apart.min() < 2e-5
        drawn.append(others[apart.argmin()])
    assert len({*drawn}) > 1


def test_of_one_word_there_is_no_other(explained):
    _, _, found = explained
    assert np.isnan(found.without_random[2, :2]).all()
    assert np.isfinite(found.without_most[2, :2]).all()


def test_equals_a_loop_with_uniform_weights(explained, monkeypatch):
    model, decoder, found = explained
    monkeypatch.setattr(oracle, "softmax", lambda scores: np.full(len(scores), 1 / len(scores)))
    monkeypatch.setattr(oracle, "mixed", lambda attention, name, of_heads: of_heads)
    for row in (*ROWS, 2):
        expected, _ = log_probabilities(model, decoder, row)
        actual = found.uniform[row, : len(expected)]
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_the_model_itself_keeps_its_weights(explained):
    model, _, _ = explained
    mechanisms = [attention.mechanism for attention in model.attentions]
    with_uniform_weights(model)
    assert mechanisms == [attention.mechanism for attention in model.attentions]


@pytest.mark.parametrize("row", ROWS)
def test_importance_is_a_finite_difference_along_the_vector_of_a_word(explained, row, monkeypatch):
    model, decoder, found = explained
    plain, small = oracle.word_vectors, 1e-5
    steps, width = len(real(TARGET[row])), len(real(SOURCE[row]))
    slopes = np.zeros((steps, width))
    for place in range(width):
        for sign in (1, -1):

            def longer(model, source, place=place, sign=sign):
                vectors = plain(model, source)
                vectors[place] = vectors[place] * (1 + sign * small)
                return vectors

            monkeypatch.setattr(oracle, "word_vectors", longer)
            slopes[:, place] += sign * log_probabilities(model, decoder, row)[0] / (2 * small)
    actual = found.importance[row]
    np.testing.assert_allclose(actual[:steps, :width], np.abs(slopes), rtol=1e-3, atol=1e-5)
    assert not np.any(actual[:steps, width:])


def test_padding_and_neighbours_change_nothing(explained):
    model, _, found = explained
    alone = explain(
        (model,),
        np.pad(SOURCE[1:2], ((0, 0), (0, 3))),
        np.pad(TARGET[1:2], ((0, 0), (0, 2))),
        combination="probabilities",
    )
    steps, width = len(real(TARGET[1])), len(real(SOURCE[1]))
    for name, values in found._asdict().items():
        there, here = np.asarray(getattr(alone, name)[0]), values[1]
        if here.ndim == 2:
            there, here = there[:, :width], here[:, :width]
        np.testing.assert_allclose(there[:steps], here[:steps], rtol=1e-4, atol=1e-5)
