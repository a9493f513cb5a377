"""Given parameters give the same losses as they did in the code of 26 November 2026.

Each file of `first_steps/` holds the options of a small model as JSON, three batches that are taken
in turn, the first parameters by the names of `named_leaves`, and the losses of 20 steps of the code
before mechanisms had a protocol (commit 4b39e92).
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import Batch
from attn_jax.training.checkpoints import named_leaves
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.options import model_options, train_options

FILES = sorted((Path(__file__).with_name("first_steps")).glob("*.npz"))


def test_there_is_a_file_for_each_kind_of_model():
    names = {file.stem for file in FILES}
    assert names == {"rnnsearch", "luong", "transformer", "location_aware", "gmm", "mocha"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_parameters_of_earlier_code_give_the_same_losses(file):
    with np.load(file) as arrays:
        stated = json.loads(str(arrays["options"]))
        units = stated["model"].pop("alignment_size")  # as it was called then
        options = model_options(units=units, **stated["model"])
        train = train_options(**stated["train"])
        now = {
            name.removeprefix("model."): jnp.asarray(arrays[name])
            for name in arrays.files
            if name.startswith("model.")
        }
        sources, targets, losses = (arrays[name] for name in ("sources", "targets", "losses"))
    words = len(now["words.target_words.embedding.value"])
    model = initialize(options, words, words, jax.random.key(0))
    assert {n: x.shape for n, x in named_leaves(model).items()} == {
        n: x.shape for n, x in now.items()
    }
    model = jax.tree.unflatten(
        jax.tree.structure(model), [now[name] for name in named_leaves(model)]
    )
    recipe = recipe_of(train)
    state, found = init_state(model, recipe), []
    for step in range(len(losses)):
        batch = Batch(jnp.asarray(sources[step % 3]), jnp.asarray(targets[step % 3]))
        state, loss = train_step(state, batch, jax.random.key(1), recipe=recipe_of(train))
        found.append(float(loss))
    np.testing.assert_allclose(found, losses, rtol=0, atol=1e-4)
