"""One training step: its loss, microbatches, bfloat16, averaging and scheduled sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.config import Train
from attn_jax.errors import InputError
from attn_jax.kernels.memory import Held
from attn_jax.models.choices import DECODERS
from attn_jax.models.randomness import by_row
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS, PAD, UNK, Batch
from attn_jax.training import objective
from attn_jax.training.loop import recipe_of
from attn_jax.training.objective import sampled
from attn_jax.training.step import init_state, resume, train_step
from tests.options import model_options, train_options
from tests.stages import slow

SOURCE = jnp.array([[4, 9, 6, 7], [5, 8, PAD, PAD], [10, 4, 4, PAD], [7, PAD, PAD, PAD]])
TARGET = jnp.array([[7, 5, EOS], [10, EOS, PAD], [4, 4, EOS], [EOS, PAD, PAD]])
LINKS = jnp.zeros((4, 3, 4)).at[:, 0, 0].set(1)
SIZES = {
    "embedding_size": 8,
    "annotation_size": 12,
    "hidden_size": 12,
    "units": 5,
    "readout_size": 7,
    "feedforward_size": 11,
}


def make(**options):
    return initialize(model_options(**(SIZES | options)), 11, 13, jax.random.key(0))


def run(model, steps=1, links=None, seed=1, **options):
    """The loss of the last of some steps, and the state after it."""
    recipe = recipe_of(train_options(**({"warmup_steps": 0} | options)))
    state = init_state(jax.tree.map(jnp.copy, model), recipe)
    for _ in range(steps):
        state, loss = train_step(
            state, Batch(SOURCE, TARGET, links), jax.random.key(seed), recipe=recipe
        )
    return float(loss), state


@jax.jit
def reference(model):
    """The log-probabilities of all words."""
    steps, source, alignment = model.read(SOURCE, TARGET)
    return model.log_probabilities(steps, source), alignment


def test_the_loss_is_a_mean_over_real_tokens():
    model = make()
    log_probabilities, _ = reference(model)
    real = [
        log_probabilities[row, step, TARGET[row, step]]
        for row, step in np.ndindex(TARGET.shape)
        if TARGET[row, step] != PAD
    ]
    np.testing.assert_allclose(run(model)[0], -np.mean(real), rtol=1e-5)


def test_a_gradient_is_a_mean_over_tokens_or_sentences():
    model = make()
    moved = {}
    for unit in ("token", "sentence"):
        loss, state = run(model, mean_over=unit, optimizer="sgd", learning_rate=0.1, clip_norm=1e9)
        np.testing.assert_allclose(loss, run(model)[0], rtol=1e-6)
        moved[unit] = state.parts.model.words.output.kernel[...] - model.words.output.kernel[...]
    # Nine tokens in four sentences.
    np.testing.assert_allclose(moved["sentence"], moved["token"] * 9 / 4, rtol=1e-3, atol=1e-6)
    with pytest.raises(InputError, match="unknown unit 'word'; allowed: token, sentence"):
        run(model, mean_over="word")


def test_the_weighted_losses_are_added():
    model = make(heads=2)
    plain, _ = run(model)
    _, alignment = reference(model)
    guided, _ = run(model, links=LINKS, losses="guided(weight=0.5,head=1.2)")
    expected = -np.log(alignment[:, 0, 1, 0, 0]).sum() / 9  # of 9 real tokens 4 have a link
    np.testing.assert_allclose(guided - plain, 0.5 * expected, rtol=1e-4)
    covered, _ = run(model, losses="coverage(weight=0.25)")
    again = [
        np.minimum(alignment[row, 0, head, step], alignment[row, 0, head, :step].sum(axis=0)).sum()
        for row, head, step in np.ndindex(4, 2, 3)
        if TARGET[row, step] != PAD
    ]
    np.testing.assert_allclose(covered - plain, 0.25 * sum(again) / 2 / 9, rtol=1e-4)


def test_guidance_moves_attention_to_the_links():
    options = {"learning_rate": 0.02, "losses": "guided"}
    _, state = run(make(), 60, LINKS, **options)
    guided = state.parts.model
    before, after = (reference(model)[1][:3, 0, 0, 0, 0] for model in (make(), guided))
    assert np.all(before < 0.7)
    assert np.all(after > 0.95)


@pytest.mark.parametrize("decoder", DECODERS)
def test_parts_of_a_batch_equal_the_whole(decoder):
    model = make(decoder=decoder, embedding_size=12)
    options = {"losses": "guided(weight=0.5)", "optimizer": "sgd", "learning_rate": 1.0}
    whole, after = run(model, links=LINKS, **options)
    parts, again = run(model, links=LINKS, microbatches=2, **options)
    np.testing.assert_allclose(parts, whole, rtol=1e-5)
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# Model and training options of steps that draw random numbers.
RANDOM = {
    "rnnsearch": ({"dropout": 0.3}, {}),
    "luong": (
        {
            "decoder": "luong_input_feeding",
            "cell": "lstm",
            "score": "general",
            "decoder_layers": 2,
            "dropout": 0.3,
        },
        {},
    ),
    "transformer": (
        {
            "encoder": "transformer",
            "decoder": "transformer",
            "score": "scaled_dot",
            "heads": 2,
            "dropout": 0.3,
        },
        {},
    ),
    "monotonic": ({"normalizer": "monotonic", "heads": 2}, {}),
    "monotonic_all_at_once": ({"normalizer": "mocha", "decoder": "luong"}, {}),
    "scheduled_sampling": ({}, {"scheduled_sampling": 1.0, "sampling_steps": 1}),
    "variational": ({"dropout": 0.3, "dropout_kind": "variational"}, {}),
}


@pytest.mark.parametrize(
    "name", [name if name == "rnnsearch" else pytest.param(name, marks=slow) for name in RANDOM]
)
def test_parts_of_a_batch_draw_the_same_numbers_as_the_whole(name):
    options, train = RANDOM[name]
    model = make(**options)
    train = train | {"optimizer": "sgd", "learning_rate": 0.5, "steps": 2}
    whole, after = run(model, **train)
    for microbatches in (2, 4):
        parts, again = run(model, microbatches=microbatches, **train)
        np.testing.assert_allclose(parts, whole, rtol=1e-5)
        for one, other in zip(after.leaves, again.leaves, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    # Other numbers would have been seen.
    assert abs(run(model, seed=2, **train)[0] - whole) > 1e-3


def test_a_batch_that_cannot_be_cut():
    with pytest.raises(InputError, match=r"microbatches=3 does not divide train\.batch_size=4"):
        run(make(), microbatches=3)


@pytest.mark.parametrize("decoder", DECODERS)
def test_bfloat16_keeps_parameters_and_weights_in_float32(decoder):
    model = make(decoder=decoder, encoder="transformer", embedding_size=12, self_heads=2)
    full, _ = run(model)
    half, state = run(model, compute="bfloat16")
    assert half != full
    np.testing.assert_allclose(half, full, rtol=0.02)
    assert {leaf.dtype for leaf in jax.tree.leaves(state.parts.model)} == {jnp.dtype("float32")}
    with jax.default_matmul_precision("BF16_BF16_F32"):
        reading = jax.eval_shape(model.read, SOURCE, TARGET, by_row(jax.random.key(0), 4))
    assert (reading.steps.dtype, reading.weights.dtype) == (jnp.float32, jnp.float32)


def test_the_average_is_a_decaying_mean_of_the_parameters():
    recipe = recipe_of(Train(warmup_steps=0, average=0.5))
    state = init_state(make(), recipe)
    average = jax.tree.map(np.array, state.parts.model)
    for step in range(1, 9):
        state, _ = train_step(state, Batch(SOURCE, TARGET), jax.random.key(1), recipe=recipe)
        kept = min(0.5, (1 + step) / (10 + step))
        average = jax.tree.map(
            lambda a, x, k=kept: k * a + (1 - k) * np.array(x), average, state.parts.model
        )
    for expected, actual in zip(
        jax.tree.leaves(average), jax.tree.leaves(state.result), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    again = resume(8, state.result, state.rest)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_share_of_the_words_is_drawn_from_the_model():
    """A model that is sure of one word draws it wherever a word is drawn."""
    model = make()
    model.words.output.bias[...] = model.words.output.bias[...].at[9].set(1e3)
    target = jnp.full((50, 41), 4).at[:, -2].set(EOS).at[:, -1].set(PAD)
    source, rng = jnp.ones((50, 3), jnp.int32), by_row(jax.random.key(0), 50)
    drawn = sampled(model, source, target, jnp.asarray(0.25), rng)
    assert set(np.unique(drawn[:, :-2])) == {4, 9}
    assert abs((drawn[:, :-2] == 9).mean() - 0.25) < 0.03
    np.testing.assert_array_equal(drawn[:, -2:], target[:, -2:])
    # Of the special tokens, only the unknown one may be drawn.
    untrained = initialize(model_options(), 5, 5, jax.random.key(0))
    drawn = sampled(untrained, source, target, jnp.asarray(1.0), rng)
    assert set(np.unique(drawn[:, :-2])) == {UNK, 4}
    same = sampled(model, source, target, jnp.asarray(0.0), rng)
    np.testing.assert_array_equal(same, target)


def test_words_are_drawn_by_their_probabilities_in_parts_of_any_size(monkeypatch):
    """The model gives 3 words the probabilities 0.6, 0.3 and 0.1, wherever it is."""
    model = make()
    model.words.output.kernel[...] = jnp.zeros_like(model.words.output.kernel[...])
    chances = jnp.full(13, 1e-30).at[jnp.array([4, 8, 12])].set(jnp.array([0.6, 0.3, 0.1]))
    model.words.output.bias[...] = jnp.log(chances)
    source, target = jnp.ones((50, 3), jnp.int32), jnp.full((50, 41), 5)
    every, rng = jnp.asarray(1.0), by_row(jax.random.key(0), 50)
    drawn = sampled(model, source, target, every, rng)
    counts = np.bincount(np.ravel(drawn), minlength=13) / drawn.size
    np.testing.assert_allclose(counts, np.where(chances > 1e-9, chances, 0), atol=0.03)
    monkeypatch.setattr(objective, "LOGITS", Held(cpu=50 * 13 * 4, other=50 * 13 * 4))
    np.testing.assert_array_equal(drawn, sampled(model, source, target, every, rng))


def test_the_share_of_drawn_words_rises_from_zero():
    model = make()
    config = Train(scheduled_sampling=1.0, sampling_steps=10)

    def loss(step, config, target=TARGET):
        step, rng = jnp.asarray(step), by_row(jax.random.key(0), 4)
        return recipe_of(config).loss(model, Batch(SOURCE, target), step, rng)

    np.testing.assert_allclose(loss(0, config), loss(0, Train()), rtol=1e-6)
    assert loss(10, config) != loss(0, Train())
    # The first word does not depend on any other.
    first = TARGET.at[:, 1:].set(PAD)
    np.testing.assert_allclose(loss(10, config, first), loss(0, Train(), first), rtol=1e-6)


def test_an_unknown_precision():
    with pytest.raises(
        InputError, match=r"unknown precision 'float16'.*; allowed: float32, bfloat16"
    ):
        run(make(), compute="float16")
