"""Mechanisms that change with the number of training steps know it in training and in use."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Normalizer
from attn_jax.config import Model, Train
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS, Batch
from attn_jax.training.loop import recipe_of
from attn_jax.training.step import init_state, train_step
from tests.options import model_options

BATCH = Batch(jnp.array([[5, 6, 7], [6, 5, 0]]), jnp.array([[7, 6, EOS], [6, EOS, 0]]))


class Annealed(Normalizer):
    reads = ("train_step",)

    def weights(self, p, scores, mask, past):
        return jax.nn.softmax((1 + past.train_step) * scores, where=mask)


@pytest.mark.parametrize("decoder", ["luong", "bahdanau"])
@pytest.mark.parametrize("average", [0.0, 0.9])
def test_training_tells_the_mechanism_how_many_steps_are_done(decoder, average):
    sizes = {"hidden_size": 8, "annotation_size": 8, "embedding_size": 4, "readout_size": 4}
    model = model_options(**sizes, decoder=decoder, score="general")
    config = Train(average=average, learning_rate=0.01)
    state = init_state(
        initialize(dataclasses.replace(model, normalizer=Annealed()), 9, 9, jax.random.key(0)),
        recipe_of(config),
    )
    for _ in range(3):
        state, loss = train_step(state, BATCH, jax.random.key(1), recipe=recipe_of(config))
        assert np.isfinite(loss)
    trained = state.result
    (attention,) = trained.attentions
    assert attention.train_step[...] == 3
    sharp = trained.read(*BATCH[:2]).weights
    attention.train_step[...] = jnp.zeros(())
    soft = trained.read(*BATCH[:2]).weights
    assert not np.allclose(sharp, soft, atol=1e-4)


def test_other_models_have_no_such_leaf():
    (attention,) = initialize(Model(), 9, 9, jax.random.key(0)).attentions
    assert attention.train_step is None
