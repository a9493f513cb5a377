"""All functions also lower for other platforms, and compile once per shape."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import export

from attn_jax.config import Model, Train
from attn_jax.decoding.decode import decode
from attn_jax.decoding.forced import force
from attn_jax.decoding.options import Search
from attn_jax.models.choices import DECODERS
from attn_jax.recipe.losses import LOSSES
from attn_jax.tokens import Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.drawn import drawn

PLATFORMS = ("cpu", "cuda", "tpu")
IDS = jnp.ones((3, 5), jnp.int32)


@pytest.fixture(params=DECODERS)
def model(request):
    config = Model(decoder=request.param, dropout=0.1, heads=2)  # some losses compare heads
    return drawn(config, 11, 13)


def lowers(function, *arguments):
    """Whether a function of arrays lowers for every platform."""
    leaves, structure = jax.tree.flatten(arguments)

    def flat(*leaves):
        return jax.tree.leaves(function(*jax.tree.unflatten(structure, leaves)))

    # The memory layout of factors is requested by a custom call that exports do not guarantee.
    unchecked = [export.DisabledSafetyCheck.custom_call("LayoutConstraint")]
    exported = export.export(jax.jit(flat), platforms=PLATFORMS, disabled_checks=unchecked)
    return exported(*leaves).platforms == PLATFORMS


def test_the_training_step(model):
    compare = ("disagreement", "delay_variance") if model.heads == 1 else ()  # heads
    losses = tuple(kind() for name, kind in LOSSES.items() if name not in compare)
    config = Train(label_smoothing=0.1, losses=losses)
    step = partial(train_step.__wrapped__, recipe=recipe_of(config))
    rng = jax.random.key_data(jax.random.key(0))

    def one(state, source, target, rng):
        batch = Batch(source, target, jnp.ones((3, 5, 5)))
        return step(state, batch, jax.random.wrap_key_data(rng))

    assert lowers(one, init_state(model, recipe_of(config)), IDS, IDS, rng)


@pytest.mark.parametrize("search", [Search(), Search(beam_size=3, coverage_penalty=0.1)])
def test_decoding(model, search):
    def search_in(model, source, rng):
        rngs = jax.random.split(jax.random.wrap_key_data(rng), len(source))
        options = {"combination": "log_probabilities", "search": search, "longest": 7}
        return decode.__wrapped__((model,), source, rngs, **options)

    assert lowers(search_in, model, IDS, jax.random.key_data(jax.random.key(0)))


def test_forcing(model):
    assert lowers(partial(force.__wrapped__, combination="log_probabilities"), (model,), IDS, IDS)


def test_no_compilation_after_the_first_of_a_shape(model):
    config = Train()
    state, before = init_state(model, recipe_of(config)), train_step._cache_size()
    for length in (5, 7, 5, 7, 5):
        ids = jnp.ones((3, length), jnp.int32)
        state, _ = train_step(state, Batch(ids, ids), jax.random.key(0), recipe=recipe_of(config))
    assert train_step._cache_size() - before == 2
