"""One training step of this project, as a side of the benchmark."""

from collections.abc import Callable

import jax
import numpy as np

from attn_jax import config
from attn_jax.config import Model, Train
from attn_jax.models.seq2seq import initialize
from attn_jax.tokens import EOS, Batch
from attn_jax.training.precision import PRECISIONS
from attn_jax.training.recipe import recipe_of
from attn_jax.training.step import init_state, train_step

from .side import serve

OPTIONS = {
    "rnnsearch": {"encoder": "bidirectional", "decoder": "bahdanau", "score": "additive"},
    "luong": {
        "encoder": "unidirectional",
        "decoder": "luong_input_feeding",
        "score": "general",
        "cell": "lstm",
        "encoder_layers": 2,
        "decoder_layers": 2,
        "first_state": "last",
    },
    "transformer": {
        "encoder": "transformer",
        "decoder": "transformer",
        "score": "scaled_dot",
        "heads": 4,
        "encoder_layers": 3,
        "decoder_layers": 3,
    },
}


def model_of(system: str, size: int) -> Model:
    """The options of a system's model, all of whose layers have the same size."""
    options = OPTIONS[system] | {
        "embedding_size": size,
        "hidden_size": size,
        "annotation_size": 2 * size if system == "rnnsearch" else size,
        "readout_size": size,
        "feedforward_size": 4 * size,
        "dropout": 0.0,
    }
    if options["score"] == "additive":
        options["score"] = f"additive(units={size})"
    return config.experiment({f"model.{name}": value for name, value in options.items()}).model


def prepare(
    system: str,
    batch: int,
    source_length: int,
    target_length: int,
    vocabulary: int,
    size: int,
    precision: str,
) -> Callable[[], None]:
    """Prepares a training step on one batch."""
    recipe = recipe_of(Train(compute=PRECISIONS[precision]()))
    model = initialize(model_of(system, size), vocabulary, vocabulary, jax.random.key(0))
    state = init_state(model, recipe)
    generator = np.random.default_rng(0)
    source = generator.integers(4, vocabulary, (batch, source_length), np.int32)
    target = generator.integers(4, vocabulary, (batch, target_length), np.int32)
    target[:, -1] = EOS
    rng = jax.random.key(1)

    def repeat() -> None:
        nonlocal state
        state, loss = train_step(state, Batch(source, target), rng, recipe=recipe)
        jax.block_until_ready(loss)

    return repeat


if __name__ == "__main__":
    serve(prepare)
