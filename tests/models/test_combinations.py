"""Every mechanism in every decoder: forward, gradient, a training step, greedy decoding.

All scores, normalizers and decoders are combined, with windows, heads and hooks chosen so that
each pair of options occurs. A few cases that cover all options are in the second stage, the others
run on demand (`-m slow`).
"""

import itertools
import random
from functools import partial

import jax
import numpy as np
import pytest

from attn_jax import NORMALIZERS, SCORES, WINDOWS, Mechanism
from attn_jax.config import Train
from attn_jax.decoding.decode import decode
from attn_jax.decoding.forced import force
from attn_jax.decoding.options import Search
from attn_jax.errors import InputError
from attn_jax.models.seq2seq import initialize
from attn_jax.recipe.losses import Coverage
from attn_jax.tokens import EOS, PAD, Batch
from attn_jax.training.checkpoints import named_leaves
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.options import model_options
from tests.stages import few, full

# The parameters that a score does not use, or not before others have moved.
TABLES = "hard_coded", "random_synthesizer", "factorized_synthesizer"
OF_POSITIONS = "gmm", "gmm_v1", "gmm_v2", "logistics", "dynamic_convolution", "location"
UNREAD = dict.fromkeys(("mean", "last", *TABLES), ("projections.queries", "projections.keys"))
UNREAD |= dict.fromkeys(OF_POSITIONS, ("projections.keys",))
UNREAD |= {"very_attentive": ("score.W", "score.a")}

SOURCE = np.array([[4, 9, 6, 7, 8], [5, 8, 10, PAD, PAD], [PAD] * 5])
TARGET = np.array([[7, 5, 4, EOS], [10, EOS, PAD, PAD], [PAD] * 4])
SIZES = {
    "embedding_size": 8,
    "annotation_size": 12,
    "hidden_size": 12,
    "units": 3,
    "readout_size": 7,
    "feedforward_size": 11,
}
DECODERS = [
    {"decoder": "bahdanau", "cell": "gru"},
    {"decoder": "bahdanau", "cell": "lstm"},
    {"decoder": "luong", "cell": "gru"},
    {"decoder": "luong", "cell": "lstm"},
    {"decoder": "luong_input_feeding", "cell": "lstm"},
    {"decoder": "transformer", "decoder_layers": 2},
]
HEADS = [
    {"heads": 1},
    {"heads": 2, "projection": "affine"},
    {"heads": 4, "key_value_heads": 2},
    {"heads": 2, "key_value_heads": 1, "head_size": 5},
]
# What heads sum, and what becomes of it. Values of half an annotation are for few scores and heads.
HOOKS = [
    {},
    {"values": "embeddings"},
    {"values": "sum", "gate": "headwise"},
    {"gate": "elementwise"},
    {"mixing": "talking_heads"},
]
SETTINGS = {
    "local_m": "local_m(half_width=2)",
    "local_p": "local_p(half_width=2)",
    "location": "location(positions=4)",
    "entmax": "entmax(alpha=1.4)",
    "adaptive_span": "adaptive_span(span=1.3,longest=3,ramp=2)",  # so that it ends within sentences
}


# Normalizers of two scores, and scores without parameters, which would give one score twice.
WITHOUT = ["dot", "scaled_dot", "performer", "alibi", "rotary", "length_aware_rotary", "hard_coded"]
ONE_SCORE_TWICE = {(score, normalizer) for score in WITHOUT for normalizer in ("mocha", "milk")}


def makes_sense(score, window, normalizer):
    if (score, normalizer) in ONE_SCORE_TWICE:
        return False
    try:
        Mechanism(SCORES[score](), WINDOWS[window](), NORMALIZERS[normalizer]())
    except InputError:
        return False
    return True


def combinations():
    """All scores with all normalizers and decoders; heads and hooks in turn, random windows."""
    cases, generator = [], random.Random(0)
    for score, normalizer, decoder in itertools.product(SCORES, NORMALIZERS, DECODERS):
        possible = [w for w in WINDOWS if makes_sense(score, w, normalizer)]
        if possible:
            turn = len(cases) + len(cases) // len(DECODERS)  # so that each decoder has all of them
            heads = HEADS[turn % len(HEADS)]
            allowed = HOOKS if heads["heads"] > 1 else [h for h in HOOKS if "mixing" not in h]
            hook = allowed[(turn // len(HEADS)) % len(allowed)]
            cases.append((score, generator.choice(possible), normalizer, decoder, heads, hook))
    return cases


COUNT = itertools.count(1)


@pytest.fixture(autouse=True)
def programs():
    """Drops compiled programs now and then: a process has room for only some thousands."""
    yield
    if next(COUNT) % 8 == 0:
        jax.clear_caches()


CASES = combinations()


def case_id(case):
    score, window, normalizer, *options = case
    values = [value for group in options for value in group.values()]
    return "-".join(map(str, [score, window, normalizer, *values]))


def test_every_pair_of_options_meets():
    met = {
        (a, str(x), b, str(y))
        for case in CASES
        for (a, x), (b, y) in itertools.combinations(enumerate(case), 2)
    }
    for window, heads in itertools.product(WINDOWS, HEADS):
        assert (1, window, 4, str(heads)) in met
    for decoder, heads in itertools.product(DECODERS, HEADS):
        assert (3, str(decoder), 4, str(heads)) in met
    for decoder, hook in itertools.product(DECODERS, HOOKS):
        assert (3, str(decoder), 5, str(hook)) in met
    for heads, hook in itertools.product(HEADS[1:], HOOKS):
        assert (4, str(heads), 5, str(hook)) in met
    for window, decoder in itertools.product(WINDOWS, DECODERS):
        assert (1, window, 3, str(decoder)) in met
    for score, normalizer in itertools.product(SCORES, NORMALIZERS):
        allowed = any(makes_sense(score, window, normalizer) for window in WINDOWS)
        assert ((0, score, 2, normalizer) in met) == allowed
    for score, window in itertools.product(SCORES, WINDOWS):
        allowed = any(makes_sense(score, window, normalizer) for normalizer in NORMALIZERS)
        assert ((0, score, 1, window) in met) == allowed
    for part, names in ((0, SCORES), (2, NORMALIZERS)):
        for name, heads in itertools.product(names, HEADS):
            assert (part, name, 4, str(heads)) in met
        often = [name for name in names if sum(case[part] == name for case in CASES) > 24]
        assert len(often) >= len(names) - 2
        for name, hook in itertools.product(often, HOOKS):
            assert (part, name, 5, str(hook)) in met


def largest_sum(normalizer):
    """The documented upper bound of the sum of a step's weights; None if there is none."""
    promise = NORMALIZERS[normalizer].__doc__.partition("Sum: ")[2].partition(".")[0]
    return None if promise == "any" else 1.0


def smallest_sum(score, window, normalizer):
    exact = "Sum: 1." in NORMALIZERS[normalizer].__doc__ and window != "local_p"
    # A location score cannot reach words beyond its positions, and a window may hold only such.
    return 1.0 if exact and (score, window) != ("location", "local_m") else 0.0


def check_sums(sums, score, window, normalizer):
    assert np.all(sums >= smallest_sum(score, window, normalizer) - 1e-5)
    if largest_sum(normalizer):
        assert np.all(sums <= 1 + 1e-5)


@full
@pytest.mark.parametrize("case", few(CASES, seen=(3, 4, 5)), ids=case_id)
def test_runs_trains_and_decodes(case):
    score, window, normalizer, decoder, heads, hook = case
    config = model_options(
        score=SETTINGS.get(score, score),
        window=SETTINGS.get(window, window),
        normalizer=SETTINGS.get(normalizer, normalizer),
        **decoder,
        **heads,
        **hook,
        **SIZES,
    )
    model = initialize.__wrapped__(config, 11, 11, jax.random.key(0))  # see `make` in test_seq2seq
    before = jax.tree.map(np.array, model)
    layers, rows, length = config.decoder_layers, len(SOURCE), TARGET.shape[1]

    recipe = recipe_of(Train(losses=(Coverage(weight=0.1),), warmup_steps=0))
    state, loss = train_step(
        init_state(model, recipe),
        Batch(SOURCE, TARGET),
        jax.random.key(1),
        recipe=recipe,
    )
    assert np.isfinite(loss)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))
    moved = jax.tree.map(lambda a, b: bool(np.any(a != b)), before, state.parts.model)
    assert all(jax.tree.leaves(moved.words.output))
    leaves = named_leaves(moved.decoder).items()
    still = {name for name, change in leaves if "attention" in name and not change}
    unread = UNREAD.get(score, ())
    assert all(any(part in name for part in unread) for name in still), still

    models, together = (state.parts.model,), {"combination": "log_probabilities"}
    rngs = jax.random.split(jax.random.key(2), rows)
    found = decode(models, SOURCE, rngs, **together, search=Search(), longest=length - 1)
    found = jax.tree.map(lambda leaf: leaf[:, 0], found)
    assert found.weights.shape == (rows, layers, config.heads, length, SOURCE.shape[1])
    assert model.heads == layers * config.heads
    written = np.asarray(found.tokens != PAD)
    sums = np.moveaxis(found.weights.sum(axis=-1), -1, 1)
    if "mixing" not in hook:  # else the weights are not the normalizer's
        check_sums(sums[written], score, window, normalizer)
    assert not np.any(np.moveaxis(found.weights, -1, 1)[SOURCE == PAD])

    # Forcing the decoded sentences gives the same probabilities and weights.
    forced = force(models, SOURCE, found.tokens, **together)
    total = forced.log_probabilities.sum(axis=1)
    np.testing.assert_allclose(total, found.log_probability, rtol=1e-4, atol=1e-4)
    of_forced, of_found = (np.moveaxis(one.weights, 3, 1)[written] for one in (forced, found))
    np.testing.assert_allclose(of_forced, of_found, atol=1e-4)


OWN = """
import jax
import jax.numpy as jnp
import numpy as np
from attn_jax import Normalizer

W = np.ones((24, 3), np.float32)

def bound(query, keys):
    joined = jnp.concatenate([jnp.broadcast_to(query, keys.shape), keys], axis=1)
    return jnp.tanh(joined @ W).sum(axis=1)

class Both(Normalizer):
    scores = 2

    def weights(self, p, scores, mask, past):
        return jax.nn.softmax(scores.sum(axis=0), where=mask)
"""


@pytest.mark.parametrize("decoder", ["luong", "transformer"])
def test_a_normalizer_of_two_scores_takes_none_without_parameters(tmp_path, monkeypatch, decoder):
    """The heads' projections do not tell the scores apart: they are the same for each."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_two.py").write_text(OWN)
    own = {("dot", "of_two:Both"), ("of_two:bound", "mocha")}
    for score, normalizer in sorted(ONE_SCORE_TWICE | own):
        config = model_options(
            score=score, normalizer=normalizer, decoder=decoder, projection="linear", **SIZES
        )
        with pytest.raises(InputError, match="takes two scores, which would be the same, since"):
            jax.eval_shape(partial(initialize, config, 5, 5), jax.random.key(0))
    for score in ("general", "projected(dot)", "pair(dot,scaled_dot)"):
        config = model_options(score=score, normalizer="of_two:Both", decoder=decoder, **SIZES)
        jax.eval_shape(partial(initialize, config, 5, 5), jax.random.key(0))
