"""What is dropped, when, and in which steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Model
from attn_jax.models.choices import DECODERS
from attn_jax.models.dropout import DROPOUTS, Variational, make_dropout
from attn_jax.models.randomness import by_row
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS
from tests.models.test_seq2seq import make
from tests.stages import slow

RNG = by_row(jax.random.key(3), 7)
ONES = jnp.ones((7, 50, 41))


@pytest.mark.parametrize("kind", DROPOUTS)
def test_a_share_is_dropped_and_the_mean_stays(kind):
    dropped = make_dropout(Model(dropout=0.2, dropout_kind=kind))(
        jnp.ones((700, 3, 410)), by_row(jax.random.key(3), 700)
    )
    np.testing.assert_allclose(np.unique(dropped), [0, 1.25])
    assert abs((dropped == 0).mean() - 0.2) < 0.005


@pytest.mark.parametrize("kind", DROPOUTS)
def test_nothing_is_dropped_at_use(kind):
    dropout = make_dropout(Model(dropout=0.2, dropout_kind=kind))
    assert dropout(ONES, None) is ONES
    np.testing.assert_array_equal(dropout.recurrent(ONES[:, 0], None), ONES[:, 0])
    assert dropout.steps(None, 5, layers=2) is None


def test_steps_have_keys_only_where_a_mask_is_drawn_in_a_step():
    """Ordinary dropout draws one between layers, variational dropout also for the state."""
    for kind, layers, rate, drawn in [
        ("ordinary", 1, 0.2, False),
        ("ordinary", 2, 0.2, True),
        ("ordinary", 2, 0.0, False),
        ("variational", 1, 0.2, True),
        ("variational", 2, 0.0, False),
    ]:
        dropout = make_dropout(Model(dropout=rate, dropout_kind=kind))
        assert (dropout.steps(RNG, 5, layers) is not None) == drawn


def test_ordinary_dropout_is_drawn_anew_for_each_step():
    dropout = make_dropout(Model(dropout=0.5))
    dropped = dropout(ONES, RNG)
    assert len({bytes(np.asarray(dropped[0, step])) for step in range(50)}) == 50
    first, second = (dropout(ONES[:, 0], rng) for rng in dropout.steps(RNG, 2, layers=2))
    assert np.any(first != second)
    np.testing.assert_array_equal(dropout.recurrent(ONES[:, 0], RNG), ONES[:, 0])


@pytest.mark.parametrize("kind", DROPOUTS)
def test_equal_rows_draw_masks_of_their_own_that_stay_in_a_part_of_the_batch(kind):
    dropout = make_dropout(Model(dropout=0.5, dropout_kind=kind))

    def masks(features, rng):
        hidden = features[:, 0]
        in_steps = [dropout(hidden, at_step) for at_step in dropout.steps(rng, 2, layers=2)]
        return dropout(features, rng), dropout.recurrent(hidden, rng), *in_steps

    whole = masks(ONES, RNG)
    for mask in whole:
        if np.any(mask == 0):
            assert len({bytes(np.asarray(row)) for row in mask}) == 7
    assert sum(bool(np.any(mask == 0)) for mask in whole) == (4 if kind == "variational" else 3)
    for of_batch, of_part in zip(whole, masks(ONES[2:4], RNG[2:4]), strict=True):
        np.testing.assert_array_equal(of_part, of_batch[2:4])


def test_the_key_of_a_row_does_not_depend_on_how_many_there_are():
    few, many = (by_row(jax.random.key(3), rows) for rows in (3, 7))
    assert np.all(few == many[:3])
    assert len(np.unique(jax.random.key_data(many), axis=0)) == 7


def test_variational_dropout_is_that_of_the_sentence():
    dropout = Variational(0.5)
    dropped = dropout(ONES, RNG)
    assert np.all(dropped == dropped[:, :1])
    assert len({bytes(np.asarray(dropped[row, 0])) for row in range(7)}) == 7
    first, second = (dropout(ONES[:, 0], rng) for rng in dropout.steps(RNG, 2, layers=2))
    np.testing.assert_array_equal(first, second)
    assert 0.3 < (dropout.recurrent(ONES[:, 0], RNG) == 0).mean() < 0.7


def test_variational_dropout_hides_the_same_units_of_the_state_at_all_steps():
    """A tanh cell with an identity matrix shows which units of the previous state it saw."""
    config = Model(
        cell="tanh",
        encoder="unidirectional",
        embedding_size=5,
        annotation_size=61,
        dropout=0.5,
        dropout_kind="variational",
    )
    stack = initialize(config, 7, 7, jax.random.key(0)).encoder.layers[0].cell
    (cell,) = stack.cells
    cell.recurrent.kernel[...] = jnp.eye(61)
    state, passed = (jnp.full((1, 61), 0.5),), []
    for rng in stack.dropout.steps(RNG[:1], 3, layers=1):
        before, (state,) = state[0], stack(state, jnp.zeros((1, 61)), rng)
        passed.append(np.asarray(state != 0))
        np.testing.assert_allclose(state[state != 0], np.tanh(2 * before[state != 0]), rtol=1e-5)
        state = (jnp.full((1, 61), 0.5),)
    assert 15 < passed[0].sum() < 45
    np.testing.assert_array_equal(passed[0], passed[1])
    np.testing.assert_array_equal(passed[0], passed[2])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ["bidirectional", pytest.param("transformer", marks=slow)])
def test_both_kinds_run_in_every_model(encoder, decoder):
    source, target = jnp.array([[4, 5, 6]]), jnp.array([[4, EOS]])
    features = []
    for kind in ("ordinary", "variational"):
        model = make(
            encoder=encoder, decoder=decoder, dropout=0.3, dropout_kind=kind, encoder_layers=2
        )
        features.append(jax.jit(lambda m: m.read(source, target, RNG[:1]).steps)(model))
    assert np.isfinite(features).all()
    assert np.any(features[0] != features[1])
