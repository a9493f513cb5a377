"""How far it is from a training step to the equation of a score, and how much code a step runs."""

import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import attn_jax
from attn_jax.attention.scores import Additive, ScaledDot
from attn_jax.config import Model, Train
from attn_jax.tokens import EOS, Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.drawn import drawn

PACKAGE = str(Path(attn_jax.__file__).parent)
SIZES = {"embedding_size": 4, "annotation_size": 6, "hidden_size": 6, "readout_size": 4}
MODELS = {
    "bahdanau": {"decoder": "bahdanau", "score": Additive(units=3)},
    "luong": {"decoder": "luong", "score": Additive(units=3)},
    "luong_input_feeding": {"decoder": "luong_input_feeding", "score": Additive(units=3)},
    "transformer": {"decoder": "transformer", "encoder": "transformer", "score": ScaledDot()},
}


class Traced(NamedTuple):
    """What tracing a training step calls of the project."""

    stacks: list[list[str]]  # of functions at each call of `score`, the outermost first
    classes: set[type]  # whose methods are called
    functions: set[tuple[str, int]]  # by file and line, those without a name left out
    files: set[str]


def traced(options):
    """Traces a training step."""
    model = drawn(Model(feedforward_size=5, **SIZES, **options), 11, 13)
    recipe = recipe_of(Train(warmup_steps=0))
    state, rng = init_state(model, recipe), jax.random.key(0)
    pairs = Batch(jnp.array([[4, 9, 6, EOS]]), jnp.array([[7, 5, EOS]]))
    seen = Traced([], set(), set(), set())

    def note(frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        seen.files.add(code.co_filename)
        if not code.co_name.startswith("<"):
            seen.functions.add((code.co_filename, code.co_firstlineno))
        if code.co_varnames[:1] == ("self",):
            seen.classes.add(type(frame.f_locals["self"]))
        if code.co_qualname == f"{type(options['score']).__name__}.score":
            names = []
            while frame:
                if frame.f_code.co_filename.startswith(PACKAGE):
                    names.append(frame.f_code.co_qualname)
                frame = frame.f_back
            seen.stacks.append(names[::-1])

    jax.clear_caches()  # else a step that was traced before would not be traced again
    sys.setprofile(note)
    try:
        train_step.trace(state, pairs, rng, recipe=recipe)
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize(
    ("name", "frames", "classes", "functions", "files"),
    [("bahdanau", 11, 30, 154, 33), ("luong", 10, 30, 155, 33), ("transformer", 11, 32, 121, 31)],
)
def test_a_training_step_runs_little_code(name, frames, classes, functions, files):
    """A change that raises a number must say what for."""
    seen = traced(MODELS[name])
    assert all(stack[0] == "train_step" for stack in seen.stacks)
    # The steps of a recurrence are traced again for its derivative, further inside.
    shortest = min(seen.stacks, key=len)
    assert len(shortest) <= frames, shortest
    found = tuple(map(len, seen[1:]))
    assert all(one <= most for one, most in zip(found, (classes, functions, files), strict=True)), (
        found
    )


@pytest.mark.parametrize("name", ["bahdanau", "luong_input_feeding"])
def test_few_calls_lie_between_a_step_of_attention_and_a_score(name):
    stacks = traced(MODELS[name]).stacks
    assert stacks
    for stack in stacks:
        after = stack[stack.index("Attention.step") :]
        assert after == ["Attention.step", "weigh", "Additive.score"]
