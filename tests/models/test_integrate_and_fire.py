"""Continuous integrate-and-fire: its vectors, its training, its use."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from attn_jax.decoding.decode import decode
from attn_jax.decoding.forced import force
from attn_jax.decoding.options import Search
from attn_jax.errors import InputError
from attn_jax.models.integrate_and_fire import fired
from attn_jax.models.randomness import by_row
from attn_jax.tokens import BOS, PAD, Batch
from attn_jax.training.objective import Objective
from tests.models import integrate_and_fire_oracle, oracle
from tests.models.arithmetic import double
from tests.models.test_seq2seq import SOURCE, TARGET, make

BATCH = SOURCE, TARGET
PAIRS = [*zip(*BATCH, strict=True)]


@pytest.mark.parametrize("rest", [0.3, 0.49, 0.51, 0.9])
@pytest.mark.parametrize("largest", [0.4, 1.0, 3.7])
def test_a_step_is_that_of_the_loop(rest, largest, generator):
    """Weights over 1 fire several times; what is left over fires if it is at least half."""
    weights, annotations = generator.uniform(0, largest, size=7), generator.normal(size=(7, 5))
    weights *= (int(weights.sum()) + 1 + rest) / weights.sum()
    padded = np.append(weights, [0, 0])
    steps = int(weights.sum()) + 3
    vectors = integrate_and_fire_oracle.fired(weights, annotations)
    with jax.enable_x64(True):
        for done, (c, shares) in enumerate(itertools.islice(vectors, steps)):
            (found,) = fired(jnp.cumsum(jnp.asarray(padded))[None], jnp.asarray(done))
            np.testing.assert_allclose(found[:-2], shares, atol=1e-12)
            np.testing.assert_allclose(found[:-2] @ annotations, c, atol=1e-12)
            assert not np.any(found[-2:])
            assert np.any(found) == (done < int(weights.sum()) + (rest >= 0.5))


def test_training_has_a_vector_for_each_word_and_the_quantity_loss(generator):
    """In float64, each sentence alone: value, weights and derivative; a row of padding costs 0."""
    sentences = [(source[source != PAD], target[target != PAD]) for source, target in PAIRS]
    source, target = (np.pad(side, ((0, 1), (0, 0)), constant_values=PAD) for side in BATCH)
    narrow = make(decoder="cif", readout="linear")
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), narrow)
        along = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), model)
        batch, rng = Batch(jnp.asarray(source), jnp.asarray(target)), by_row(jax.random.key(3), 4)

        def value(step):
            moved = jax.tree.map(lambda leaf, by: leaf + step * by, model, along)
            weights = moved.read(*batch[:2], rng).weights
            return Objective()(moved, batch, jnp.asarray(0), rng), weights

        derived, width = jax.jit(jax.value_and_grad(value, has_aux=True)), 1e-6
        (loss, alignment), slope = jax.tree.map(np.asarray, derived(0.0))
        differences = float(derived(width)[0][0] - derived(-width)[0][0]) / (2 * width)
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, differences, rtol=1e-6)

    table, attention = double(model.words.target_words.embedding), model.decoder.attention
    expected, largest = 0.0, 0.0
    for row, (source, target) in enumerate(sentences):
        annotations, *handed = oracle.encode(model, source)
        weights = [*integrate_and_fire_oracle.position_weights(attention, annotations)]
        count = len(target)
        expected += abs(sum(weights) - count)
        largest = max(largest, max(weights) * count / sum(weights))
        attend = integrate_and_fire_oracle.attend(attention, annotations, count)
        known = *handed, table[[BOS, *target[:-1]]], attend
        features, shares = oracle.recurrent(model, "bahdanau", annotations, *known)
        for y, of_step in zip(target, features, strict=True):
            expected -= scipy.special.log_softmax(oracle.logits(model, of_step))[y]
        of_row = alignment[row, :, :, :count]
        np.testing.assert_allclose(of_row[..., : len(source)], shares, atol=1e-9)
        np.testing.assert_allclose(of_row.sum(axis=-1), 1, rtol=1e-9)
        assert not np.any(alignment[row, :, :, count:])
    assert largest > 1  # after scaling
    np.testing.assert_allclose(loss, expected, rtol=1e-9)


def test_scores_what_a_search_has_found():
    models, together = (make(decoder="cif"),), {"combination": "log_probabilities"}
    found = decode(models, SOURCE, None, **together, search=Search(beam_size=3), longest=6)
    for k in range(3):
        best = jax.tree.map(lambda leaf, k=k: leaf[:, k], found)
        forced = force(models, SOURCE, best.tokens, **together)
        total = forced.log_probabilities.sum(axis=1)
        np.testing.assert_allclose(total, best.log_probability, rtol=1e-5)
        written = np.asarray(best.tokens != PAD)
        of_forced, of_best = (np.moveaxis(one.weights, 3, 1)[written] for one in (forced, best))
        np.testing.assert_allclose(of_forced, of_best, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": "flat"}, "reads one source from left to right: leave out model.sources=flat"),
        ({"readout": "pointer"}, "those of model.decoder=cif need not sum to 1"),
        ({"readout": "marginal"}, "works with model.decoder=luong or transformer, got cif"),
        ({"readout": "copynet"}, "works with model.decoder=bahdanau, got cif"),
    ],
)
def test_refuses_what_does_not_fit(options, message):
    with pytest.raises(InputError, match=message):
        make(decoder="cif", **options)
