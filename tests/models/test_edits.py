"""The transducer against all sequences of actions, one by one; shortest edits."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.decoding.decode import decode
from attn_jax.decoding.options import Search
from attn_jax.edits import edit_distance
from attn_jax.models.edit_paths import shortest_edit
from attn_jax.models.protocols import Source
from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import BOS, EOS, PAD, UNK, Copyable
from tests.models import oracle
from tests.models.arithmetic import linear, softmax
from tests.models.test_copying import BOTH, COPIES, V, log_probabilities
from tests.models.test_seq2seq import BOTH as TWO
from tests.models.test_seq2seq import SOURCE, make
from tests.stages import full

READOUTS = "edits", "edits_oracle"
# Each word can be written: those that the vocabulary lacks stand in this order in the source.
TARGET = np.array([[V + 1, 7, 4, EOS], [V, 9, V + 2, EOS], [UNK, 8, EOS, PAD]])


def sharp(readout="edits", **options):
    """A model whose actions differ much between positions."""
    return jax.tree.map(lambda leaf: 3 * leaf, make(decoder="luong", readout=readout, **options))


def read(model, source, before):
    """softmax(U [s_i; h_k] + b) of delete, copy, insert, replace, and p(w | h̃_ik)."""
    decoder, readout = model.decoder, model.decoder.readout
    annotations, *_ = oracle.encode(model, source)
    states = oracle.states_of_words(model, source, [w if w < V else UNK for w in before])
    others, _ = oracle.of_second_source(model, source, states)
    h = annotations[0] if hasattr(decoder.attention, "first") else annotations
    actions, words = [], []
    for s, other in zip(states, others, strict=True):
        actions.append(
            [softmax(linear(readout.moves_from, c) + linear(readout.moves, s)) for c in h]
        )
        actions[-1].append([0, 0, 1, 0])
        of_rest = np.concatenate([other, s])
        features = [np.tanh(linear(decoder.combine, np.concatenate([c, of_rest])))
                    for c in [*h, np.zeros(h.shape[1])]]  # fmt: skip
        words.append([softmax(oracle.logits(model, x)) for x in features])
    return np.array(actions), np.array(words)


def ways(actions, words, copies, target):
    """All sequences of actions that write the target: probability, places, last pointer."""
    every = []

    def go_on(i, k, probability, places):
        if i == len(target):
            every.append((probability, places, k))
            return
        (delete, copy, insert, replace), y = actions[i][k], target[i]
        of_word = words[i][k][y] if y < V else 0
        go_on(i + 1, k, probability * insert * of_word, [*places, k])
        if k == len(copies):
            return
        go_on(i, k + 1, probability * delete, places)
        if copies[k] == y:
            go_on(i + 1, k + 1, probability * copy, [*places, k])
        go_on(i + 1, k + 1, probability * replace * of_word, [*places, k])

    go_on(0, 0, 1.0, [])
    return [way for way in every if way[0]]


def sentences():
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        source, target = ([word for word in side if word != PAD] for side in (source, target))
        yield row, source, target, list(COPIES[row, : len(source)])


def test_sums_and_maxima_are_those_over_all_actions():
    narrow, target = sharp(), jnp.asarray(TARGET)
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), narrow)
        reading = model.read(BOTH, target)
        loss, found = model.loss(reading, target), model.posterior(reading, target)
        path = model.best_alignment(reading, target)
    together = 0.0
    for row, source, words, copies in sentences():
        every = ways(*read(model, source, [BOS, *words[:-1]]), copies, words)
        probability, steps = sum(p for p, *_ in every), np.arange(len(words))
        expected = np.zeros((len(words), len(source) + 1))
        for p, places, _ in every:
            expected[steps, places] += p / probability
        real = np.s_[row, : len(words), : len(source)]
        np.testing.assert_allclose(found[real], expected[:, :-1], rtol=1e-8, atol=1e-15)
        best = max(every)[1]
        np.testing.assert_array_equal(path[real], np.eye(len(source) + 1)[best][:, :-1])
        together += np.log(probability)
    np.testing.assert_allclose(-loss, together, rtol=1e-9)


@pytest.mark.parametrize("readout", READOUTS)
def test_each_word_has_the_share_of_the_actions_that_write_it(readout):
    model, size = sharp(readout), V + SOURCE.shape[1]
    reading = model.read(BOTH, jnp.asarray(TARGET))
    found = np.exp(model.log_probabilities(reading.steps, reading.source))
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-5)
    for row, source, words, copies in sentences():
        known = read(model, source, [BOS, *words[:-1]])
        for step in range(len(words)):
            expected, places = np.zeros(size), np.zeros(len(source) + 1)
            for word in {*range(V), *copies}:
                for probability, path, _ in ways(*known, copies, [*words[:step], word]):
                    expected[word] += probability
                    places[path[-1]] += probability
            expected, places = expected / expected.sum(), places / places.sum()
            np.testing.assert_allclose(found[row, step], expected, rtol=1e-4, atol=1e-7)
            weights = reading.weights[row, 0, 0, step, : len(source)]
            np.testing.assert_allclose(weights, places[:-1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sources", ["concatenated", pytest.param("one", marks=full)])
def test_steps_equal_all_at_once(sources):
    model = sharp(sources=sources)
    words = BOTH.words if sources == "one" else jnp.asarray(TWO)
    source, target = Copyable(words, BOTH.copies), jnp.asarray(TARGET)
    expected = log_probabilities(model, source, target)
    encoded = jax.jit(Seq2Seq.encode)(model, source)
    state, word = model.start(encoded, target.shape[1]), jnp.full(3, BOS)
    for step in range(target.shape[1]):
        state, found, _ = jax.jit(Seq2Seq.step)(model, state, word, encoded)
        np.testing.assert_allclose(np.exp(found), np.exp(expected[:, step]), rtol=1e-4, atol=1e-7)
        word = target[:, step]


letters = st.lists(st.sampled_from([4, 5, 6]), max_size=4)


@given(letters.filter(len), letters)
def test_the_shortest_edit_is_one(source, target):
    copies = jnp.array([[*source, *[PAD] * (4 - len(source))]])
    known = Source(None, copies != PAD, None, copies=copies)
    words = [*target, EOS, *[PAD] * (4 - len(target))]
    path = jax.tree.map(
        lambda leaf: np.asarray(leaf[0, : len(target) + 1, : len(source) + 1]),
        jax.jit(shortest_edit)(jnp.array([words]), known),
    )
    k = cost = 0
    for i, word in enumerate(words[: len(target) + 1]):
        while path.delete[i, k]:
            k, cost = k + 1, cost + 1
        assert path.stay[i, k] + path.go[i, k] == path.write[i, k] == 1
        if word == EOS:
            assert path.stay[i, k]
            assert k == len(source)
        else:
            cost += not (path.go[i, k] and source[k] == word)
        k += int(path.go[i, k])
    assert cost == edit_distance(source, target)
    # Nothing else is marked.
    assert path.write.sum() == len(target) + 1
    assert path.delete.sum() <= cost


def test_the_oracle_is_trained_on_the_shortest_edit():
    """One by one from the source: see `ways`, of which it is the one with the fewest edits."""
    narrow, target = sharp("edits_oracle"), jnp.asarray(TARGET)
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), narrow)
        reading = model.read(BOTH, target)
        loss = model.loss(reading, target)
        path = shortest_edit(target, reading.source)
    expected = 0.0
    for row, source, words, copies in sentences():
        actions, of_words = read(model, source, [BOS, *words[:-1]])
        for i, y in enumerate(words):
            (k,) = np.flatnonzero(path.write[row, i])
            for deleted in np.flatnonzero(path.delete[row, i]):
                expected += np.log(actions[i, deleted, 0])
            if path.stay[row, i, k]:
                expected += np.log(actions[i, k, 2] * of_words[i, k, y])
            elif copies[k] == y:
                expected += np.log(actions[i, k, 1])
            else:
                expected += np.log(actions[i, k, 3] * of_words[i, k, y])
    np.testing.assert_allclose(-loss, expected, rtol=1e-9)


@pytest.mark.parametrize("readout", READOUTS)
def test_gradients_are_finite_also_where_a_word_cannot_be_written(readout):
    target = jnp.array([[V + 2, V + 1, EOS], [EOS, PAD, PAD], [UNK, V + 4, EOS]])

    def loss(model):
        return model.loss(model.read(BOTH, target), target)

    found, gradient = jax.jit(jax.value_and_grad(loss))(sharp(readout))
    assert 69 < found < 1000
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


def test_padding_changes_nothing():
    model, target = sharp(), jnp.asarray(TARGET)
    wide = [(0, 0), (0, 2)]
    longer = Copyable(jnp.pad(BOTH.words, wide), jnp.pad(BOTH.copies, wide))
    expected = log_probabilities(model, BOTH, target)
    found = log_probabilities(model, longer, target)[..., : expected.shape[-1]]
    np.testing.assert_allclose(np.exp(found), np.exp(expected), rtol=1e-4, atol=1e-7)


@full
def test_a_wide_search_finds_all_outputs():
    """Of at most one word of this source, with their probabilities."""
    model, row = sharp(), 1
    words = [[word, EOS] for word in (UNK, *range(4, V), *COPIES[row, [0, 2]])] + [[EOS, PAD]]
    target = jnp.asarray(words)
    source = jax.tree.map(lambda leaf: jnp.tile(leaf[row], (len(words), 1)), BOTH)
    each = jnp.take_along_axis(log_probabilities(model, source, target), target[..., None], axis=-1)
    expected = each[..., 0].sum(axis=1, where=target != PAD)
    search = Search(beam_size=len(words), n_best=len(words), max_length=1)
    one = jax.tree.map(lambda leaf: leaf[row : row + 1], BOTH)
    how = {"combination": "log_probabilities", "longest": 1}
    found = jax.jit(partial(decode, search=search, **how))((model,), one)
    np.testing.assert_allclose(
        np.sort(found.log_probability[0]), np.sort(expected), rtol=1e-4, atol=1e-5
    )
