"""The presets: all are valid, and those of papers have as many parameters as the papers imply."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from attn_jax.cli.flags import options_of
from attn_jax.cli.sweep_flags import read_systems
from attn_jax.models.seq2seq import initialize
from attn_jax.runs.checks import check, unused
from attn_jax.runs.folder import experiment_with
from attn_jax.tokens import Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.stages import full

pytestmark = full

ROOT = Path(__file__).parents[2]
PRESETS = sorted((ROOT / "experiments" / "presets").glob("*.flags"))


def options(name):
    return options_of([f"--flagfile={name}.flags"])


def read(name):
    return experiment_with(options(name))


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", [file.stem for file in PRESETS])
def test_every_preset_makes_sense(name):
    experiment = read(name)
    check(experiment)
    given = options(name)
    assert unused([experiment], given) == []


def test_the_systems_on_captions_differ_in_model_and_training_alone():
    systems = read_systems(ROOT / "experiments" / "presets" / "multi30k.txt")
    labels = [system["label"] for system in systems]
    assert labels == ["RNNencdec", "RNNsearch", "Luong", "Transformer"]
    for system in systems:
        same = {k: v for k, v in system.items() if k.startswith("data.")}
        assert same == {k: v for k, v in systems[0].items() if k.startswith("data.")}
        assert system["train.batch_size"] == 64


def sizes(model):
    """The numbers of a model's parameters: in matrices, and in biases and norms."""
    leaves = jax.tree.leaves(model)
    vectors = sum(leaf.size for leaf in leaves if leaf.ndim == 1)
    return sum(leaf.size for leaf in leaves) - vectors, vectors


def abstract(name, source_size, target_size):
    """A preset's model as abstract values; checks that a training step keeps its shapes."""
    experiment = read(name)
    model = jax.eval_shape(
        partial(initialize, experiment.model, source_size, target_size), jax.random.key(0)
    )

    def one_step(model):
        ids = jnp.ones((experiment.train.batch_size, 50), jnp.int32)
        recipe = recipe_of(experiment.train)
        state = init_state(model, recipe)
        return train_step(
            state, Batch(ids, ids), jax.random.key(0), recipe=recipe_of(experiment.train)
        )

    state, loss = jax.eval_shape(one_step, model)
    assert loss.shape == ()
    shapes = [[leaf.shape for leaf in jax.tree.leaves(each)] for each in (state.parts.model, model)]
    assert shapes[0] == shapes[1]
    return model


# The symbols of Bahdanau, Cho and Bengio 2014, appendix A and section B.1.
K, m, n, n_, l = 30_000, 620, 1000, 1000, 500  # noqa: E741


def gated(inputs):
    """W, W_z, W_r and U, U_z, U_r."""
    return 3 * n * inputs + 3 * n * n


def test_rnnsearch_50():
    matrices, _ = sizes(abstract("rnnsearch-50", K, K))
    encoder = m * K + 2 * gated(m)
    alignment = n_ * n + n_ * 2 * n + n_  # W_a, U_a, v_a
    decoder = m * K + gated(m) + 3 * n * 2 * n + n * n  # with C, C_z, C_r and W_s
    readout = 2 * l * (n + m + 2 * n) + K * l  # U_o, V_o, C_o and W_o
    assert matrices == encoder + alignment + decoder + readout


def test_rnnencdec_50():
    matrices, _ = sizes(abstract("rnnencdec-50", K, K))
    encoder = m * K + gated(m)
    decoder = m * K + gated(m) + 3 * n * n + n * n
    readout = 2 * l * (n + m + n) + K * l
    assert matrices == encoder + decoder + readout


def test_luong():
    words, cells = 50_000, 1000
    matrices, _ = sizes(abstract("luong-2015", words, words))
    layer = 4 * (cells + cells) * cells
    feeding = 4 * cells * cells
    attention = cells * cells + cells * 2 * cells  # W_a and W_c
    assert matrices == 3 * words * cells + 2 * 4 * layer + feeding + attention


def test_the_base_transformer():
    words, model, hidden = 37_000, 512, 2048
    matrices, vectors = sizes(abstract("transformer-base", words, words))
    attention, feed_forward = 4 * model * model, 2 * model * hidden
    blocks = 6 * (attention + feed_forward) + 6 * (2 * attention + feed_forward)
    assert matrices == words * model + blocks
    norms = 6 * 2 * 2 * model + 6 * 3 * 2 * model
    assert vectors == norms + 12 * (model + hidden) + words
    assert abs((matrices + vectors) / 65e6 - 1) < 0.05  # table 3
