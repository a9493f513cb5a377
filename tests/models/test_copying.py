"""Readouts that copy source words or translate them one by one, by loops from their papers."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.models.copying import DEAREST
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import BOS, EOS, PAD, UNK, Copyable, ids_of
from tests.models import oracle
from tests.models.arithmetic import double, linear, sigmoid, softmax
from tests.models.test_seq2seq import BOTH as TWO
from tests.models.test_seq2seq import SOURCE, SOURCE_SIZE, TARGET_SIZE, make
from tests.stages import full

V = TARGET_SIZE
# Words of the vocabulary, one of them twice, and words that it lacks, one of them twice.
COPIES = np.array([[7, V + 1, 9, V + 1, 7], [V, 6, V + 2, PAD, PAD], [8, PAD, PAD, PAD, PAD]])
TARGET = np.array([[V + 1, 7, 4, EOS], [V + 2, V, EOS, PAD], [UNK, 8, EOS, PAD]])
BOTH = Copyable(jnp.asarray(SOURCE), jnp.asarray(COPIES))
# With a second source, of which nothing is copied.
OF_FIRST = TWO < SOURCE_SIZE
TWO_SOURCES = Copyable(jnp.asarray(TWO), jnp.where(OF_FIRST, COPIES, V + np.arange(5)))
READOUTS = "pointer", "pointer_generator", "copynet"


def by_word(generated, positions, copies):
    """The probabilities of V + S words from those of generating and of copying each."""
    words = np.concatenate([generated, np.zeros(SOURCE.shape[1])])
    for place, probability in enumerate(positions):
        words[copies[place]] += probability
    return words


def attended(model, source, row, read=oracle.recurrent):
    """What the readout of RNNsearch takes, and the weights [T, S], of one sentence."""
    source = [word for word in np.asarray(ids_of(source)[row]) if word != PAD]
    before = [BOS, *(word if word < V else UNK for word in TARGET[row] if word != PAD)][:-1]
    annotations, *handed = oracle.encode(model, source)
    attend = partial(oracle.attend, words=oracle.word_vectors(model, source))
    vectors = [double(model.words.target_words.embedding)[word] for word in before]
    return read(model, "bahdanau", annotations, *handed, vectors, attend)


def pointing(model, source, row):
    """Vinyals et al. 2015 and See et al. 2017, equations 8 and 9."""
    features, alignment = attended(model, source, row)
    first = ((source.words[row] != PAD) & (source.words[row] < SOURCE_SIZE)).sum()
    readout = model.decoder.readout
    for inputs, weights in zip(features, alignment[0].mean(axis=0), strict=True):
        (gate,) = sigmoid(linear(readout.generates, inputs))
        vocabulary = np.eye(V)[EOS]
        if hasattr(readout, "hidden"):
            vocabulary = softmax(linear(model.words.output, linear(readout.hidden, inputs)))
        yield by_word(gate * vocabulary, (1 - gate) * weights[:first], COPIES[row])


def one_softmax(model, source, row):
    """Gu et al. 2016, sections 3.2 and 3.3."""

    def read(model, order, annotations, summary, lasts, vectors, attend):
        decoder = model.decoder
        cell = oracle.Cells(decoder.cell, oracle.first_states(decoder, summary, lasts))
        of_first = annotations[0] if isinstance(annotations, tuple) else annotations
        scores, previous = np.zeros(len(of_first)), BOS
        for y, following in zip(vectors, TARGET[row], strict=False):
            places = [j for j in range(len(of_first)) if COPIES[row, j] == previous]
            total = sum(np.exp(scores[j]) for j in places)
            zeta = np.zeros(of_first.shape[1])
            for j in places:
                zeta += np.exp(scores[j]) / total * of_first[j]
            c, _ = attend(decoder.attention, cell.hidden, annotations)
            gates = linear(cell.cells[0].cell.input, y) + linear(decoder.selected, zeta)
            s = cell.read(gates + linear(decoder.context, c))
            scores = np.array([np.tanh(linear(decoder.copied, h)) @ s for h in of_first])
            every = softmax(np.concatenate([linear(model.words.output, s), scores]))
            yield by_word(every[:V], every[V:], COPIES[row])
            previous = following

    return attended(model, source, row, read)


LOOPS = {"pointer": pointing, "pointer_generator": pointing, "copynet": one_softmax}


@jax.jit
def log_probabilities(model, source, target):
    steps, source, _ = model.read(source, target)
    return model.log_probabilities(steps, source)


@pytest.mark.parametrize("sources", ["one", pytest.param("concatenated", marks=full)])
@pytest.mark.parametrize("readout", READOUTS)
def test_equals_the_papers_loop(readout, sources):
    model, source = make(readout=readout, sources=sources), BOTH
    if sources == "concatenated":
        source = TWO_SOURCES
    found = np.exp(log_probabilities(model, source, jnp.asarray(TARGET)))
    assert np.all(found[0, :, V:][:, [0, 2, 3, 4]] == 0)  # no first place of an unknown word
    for row in range(len(SOURCE)):
        for step, expected in enumerate(LOOPS[readout](model, source, row)):
            np.testing.assert_allclose(found[row, step], expected, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize("readout", READOUTS)
def test_the_loss_is_that_of_the_targets(readout):
    model, target = make(readout=readout), jnp.asarray(TARGET)
    every = log_probabilities(model, BOTH, target)
    of_word = jnp.take_along_axis(every, target[..., None], axis=-1)[..., 0]
    # A pointer cannot write the words that are not in the source.
    expected = jnp.minimum(-of_word, DEAREST).sum(where=target != PAD)

    def loss(model, smoothing=0.0):
        return model.loss(model.read(BOTH, target), target, smoothing)

    found, gradient = jax.jit(jax.value_and_grad(loss))(model)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    with pytest.raises(InputError, match="leave it out"):
        loss(model, 0.1)


@pytest.mark.parametrize("options", [{"readout": name} for name in (*READOUTS, "lexical")])
@pytest.mark.parametrize("decoder", ["bahdanau", pytest.param("transformer", marks=full)])
def test_steps_equal_all_at_once(options, decoder):
    if decoder == "transformer" and options["readout"] == "copynet":
        pytest.skip("it has a decoder of its own")
    model, target = make(decoder=decoder, **options), jnp.asarray(TARGET)
    source, width = (BOTH, V + SOURCE.shape[1]) if model.copies else (BOTH.words, V)
    target = target if model.copies else jnp.where(target < V, target, UNK)
    expected = log_probabilities(model, source, target)
    encoded = jax.jit(Seq2Seq.encode)(model, source)
    one_step = jax.jit(Seq2Seq.step)
    state, word = model.start(encoded, target.shape[1]), jnp.full(3, BOS)
    for step in range(target.shape[1]):
        state, found, _ = one_step(model, state, word, encoded)
        assert found.shape == (3, width)
        np.testing.assert_allclose(found, expected[:, step], rtol=1e-5, atol=1e-5)
        word = target[:, step]


def test_lexical_translates_the_attended_words():
    """Nguyen and Chiang 2018, section 4."""
    model = make(readout="lexical")
    target = np.where(TARGET < V, TARGET, UNK)
    found = log_probabilities(model, BOTH.words, jnp.asarray(target))
    for row in range(len(SOURCE)):
        features, alignment = attended(model, BOTH, row)
        vectors = oracle.word_vectors(model, [word for word in SOURCE[row] if word != PAD])
        for step, (h, weights) in enumerate(zip(features, alignment[0, 0], strict=True)):
            f = np.tanh(sum(w * x for w, x in zip(weights, vectors, strict=True)))
            lexical = np.tanh(linear(model.decoder.readout.words, f)) + f
            expected = softmax(linear(model.words.output, np.concatenate([h, lexical])))
            np.testing.assert_allclose(np.exp(found[row, step]), expected, rtol=2e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readout": "pointer", "sources": "gated"}, "reads the words of the first source"),
        ({"readout": "lexical", "sources": "flat"}, "reads the words of the first source"),
        ({"readout": "copynet", "sources": "flat"}, "reads the words of the first source"),
        ({"readout": "pointer", "normalizer": "sigmoid"}, "those of additive, full, sigmoid"),
        (
            {"readout": "pointer_generator", "mixing": "talking_heads", "heads": 2},
            "must be probabilities",
        ),
        ({"readout": "pointer_generator", "score": "last"}, "do not show which word to copy"),
        (
            {"readout": "copynet", "decoder": "luong"},
            "works with model.decoder=bahdanau, got luong",
        ),
    ],
)
def test_refuses_what_does_not_fit(options, message):
    with pytest.raises(InputError, match=message):
        make(**options)


def test_a_model_that_copies_needs_copies():
    assert make(readout="pointer").copies
    assert not make().copies
    with pytest.raises(InputError, match="takes sources as"):
        make(readout="pointer").encode(BOTH.words)
