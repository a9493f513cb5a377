"""Which form of a kernel a model runs: a part of what is compiled; plain forms go forwards too."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Train
from attn_jax.kernels.forms import FAST, PLAIN, Forms
from attn_jax.models.choices import DECODERS
from attn_jax.models.randomness import by_row
from attn_jax.models.seq2seq import with_forms
from attn_jax.tokens import Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.objective import Objective
from attn_jax.training.step import init_state, train_step
from tests.drawn import drawn
from tests.options import model_options

SIZES = {
    "embedding_size": 6,
    "hidden_size": 8,
    "annotation_size": 8,
    "units": 5,
    "readout_size": 7,
    "feedforward_size": 9,
    "self_heads": 2,
}
SOURCE = jnp.array([[5, 6, 7, 8], [9, 5, 0, 0]])
TARGET = jnp.array([[7, 8, 9, 2, 0], [6, 5, 8, 9, 2]])
MODELS = {
    "gru": {"decoder": "bahdanau", "dropout": 0.2},
    "gru_reset_first": {"decoder": "bahdanau", "cell": "gru_reset_first", "readout": "linear"},
    "lstm": {"decoder": "luong", "cell": "lstm", "score": "general"},
    "lstm_step": {"decoder": "luong_input_feeding", "cell": "lstm", "dropout": 0.2},
    "tanh": {"decoder": "bahdanau", "cell": "tanh", "normalizer": "sparsemax"},
    "transformer": {"decoder": "transformer", "encoder": "transformer", "dropout": 0.2},
}

OFTEN = "gru", "lstm_step", "transformer"  # the others are slow


def make(**options):
    config = model_options(**(SIZES | options))
    return drawn(config, 11, 13)


def loss(model):
    objective, rngs = Objective(label_smoothing=0.1), by_row(jax.random.key(1), len(SOURCE))
    return objective(model, Batch(SOURCE, TARGET), jnp.zeros((), int), rngs)


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in MODELS],
)
def test_forward_and_reverse_mode_agree(name, generator):
    """In float64; `jax.nn` computes the softmax of self-attention in float32."""
    options = MODELS[name]
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), make(**options))
        along = jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), model)
        plain, along_plain = (with_forms(one, PLAIN) for one in (model, along))
        value, forward = jax.jit(lambda m, by: jax.jvp(loss, (m,), (by,)))(plain, along_plain)
        slopes = []
        for of_form in (plain, model):
            same, gradient = jax.jit(jax.value_and_grad(loss))(of_form)
            pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(along), strict=True)
            slopes.append(sum(jnp.vdot(one, other) for one, other in pairs))
            np.testing.assert_allclose(same, value, rtol=1e-6)
    assert abs(float(forward)) > 0.1
    rough = "transformer" in options["decoder"]
    np.testing.assert_allclose(np.array(slopes), float(forward), rtol=1e-5 if rough else 1e-9)


def test_fast_forms_have_no_forward_mode():
    model = make()
    with pytest.raises(TypeError, match="custom_vjp"):
        jax.jvp(loss, (model,), (model,))


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Forms)])
def test_some_model_runs_each_form(name):
    """A form that raises shows that a model asks its own modules for it."""

    class Asked(Exception):
        pass

    def asked(*_, **__):
        raise Asked

    def asks(options):
        try:
            jax.eval_shape(loss, with_forms(make(**options), forms))
        except Asked:
            return True
        return False

    forms = dataclasses.replace(PLAIN, **{name: asked})
    if name == "logits":
        model = with_forms(make(), forms)
        reading = model.read(SOURCE, TARGET)
        with pytest.raises(Asked):
            model.log_probabilities(reading.steps, reading.source)
    else:
        assert any(asks(options) for options in MODELS.values())


@pytest.mark.parametrize("decoder", DECODERS)
def test_plain_forms_leave_nothing_by_hand(decoder):
    """With a score that has no hidden units: the kernels of attention are not chosen."""
    model = make(decoder=decoder, score="general")
    fast, plain = (
        str(jax.make_jaxpr(jax.grad(loss))(with_forms(model, forms))) for forms in (FAST, PLAIN)
    )
    for name in ("optimization_barrier", "checkpoint"):
        assert name not in plain
    assert "optimization_barrier" in fast


def test_a_form_is_a_part_of_what_is_compiled():
    traced = []

    @jax.jit
    def compiled(model):
        traced.append(model.words.forms)
        return loss(model)

    model = make()
    before = jax.tree.structure(model)
    plain = with_forms(model, PLAIN)
    values = [compiled(one) for one in (model, plain, with_forms(plain, FAST), plain)]
    assert traced == [FAST, PLAIN]
    np.testing.assert_allclose(values, [values[0]] * 4, rtol=1e-5)
    assert jax.tree.structure(model) == before == jax.tree.structure(with_forms(plain, FAST))
    assert all(
        one is other
        for one, other in zip(jax.tree.leaves(model), jax.tree.leaves(plain), strict=True)
    )


def test_training_steps_of_two_forms_are_two_programs():
    recipe, losses = recipe_of(Train()), []
    before = train_step._cache_size()
    for forms in (FAST, PLAIN, FAST):
        state = init_state(jax.tree.map(jnp.copy, with_forms(make(), forms)), recipe)
        _, loss = train_step(state, Batch(SOURCE, TARGET), jax.random.key(0), recipe=recipe)
        losses.append(float(loss))
    assert train_step._cache_size() - before == 2
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
