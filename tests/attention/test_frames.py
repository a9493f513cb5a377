"""How far it is from a training step to the equation of a score."""

import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

import attn_jax
from attn_jax.attention import scores
from attn_jax.attention.scores import Additive
from attn_jax.config import Model, Train
from attn_jax.tokens import EOS
from attn_jax.training.recipe import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.drawn import drawn

PACKAGE = Path(attn_jax.__file__).parent
SIZES = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}


def on_the_stack():
    """The functions of the project that are being called, the outermost first."""
    frame, names = sys._getframe(1), []
    while frame:
        if PACKAGE in Path(frame.f_code.co_filename).parents:
            names.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return names[::-1]


@pytest.fixture
def stacks(monkeypatch):
    """The stack at each tanh of a score."""
    found = []

    def tanh(x):
        found.append(on_the_stack())
        return jnp.tanh(x)

    jax.clear_caches()  # else a step that was traced before would not be traced again
    monkeypatch.setattr(scores, "jnp", SimpleNamespace(**vars(jnp) | {"tanh": tanh}))
    return found


def traced(decoder):
    """Traces a training step with an additive score."""
    model = Model(decoder=decoder, score=Additive(units=3), feedforward_size=5, **SIZES)
    model = drawn(model, 11, 13)
    recipe = recipe_of(Train(warmup_steps=0))
    pairs = jnp.array([[4, 9, 6, EOS]]), jnp.array([[7, 5, EOS]]), None
    train_step.trace(init_state(model, recipe), pairs, jax.random.key(0), recipe=recipe)


@pytest.mark.parametrize("decoder", ["bahdanau", "luong", "transformer"])
def test_few_calls_lie_between_a_training_step_and_tanh(decoder, stacks):
    traced(decoder)
    assert all(stack[0] == "train_step" and stack[-1] == "Additive.score" for stack in stacks)
    # The steps of a recurrence are traced again for its derivative, one call further inside.
    shortest = min(stacks, key=len)
    assert len(shortest) <= 16, shortest


@pytest.mark.parametrize("decoder", ["bahdanau", "luong_input_feeding"])
def test_few_calls_lie_between_a_step_of_attention_and_tanh(decoder, stacks):
    traced(decoder)
    assert stacks
    for stack in stacks:
        after = stack[stack.index("Attention.step") :]
        assert len(after) <= 4, after
