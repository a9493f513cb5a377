"""What this project computes beside its peers: a training step, or attention of known queries."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from attn_jax import Mechanism, attend_all, config
from attn_jax.attention import Additive, Dot, General, LocationAware, Sparsemax
from attn_jax.config import Model, Train
from attn_jax.models.seq2seq import initialize
from attn_jax.recipe.precision import PRECISIONS
from attn_jax.tokens import EOS, Batch
from attn_jax.training.loop import recipe_of
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
MECHANISMS: dict[str, Callable[[int], Mechanism]] = {  # by hidden units
    "additive": lambda units: Mechanism(Additive(units=units)),
    "general": lambda units: Mechanism(General()),
    "dot": lambda units: Mechanism(Dot()),
    "sparsemax": lambda units: Mechanism(Dot(), normalizer=Sparsemax()),
    "location_aware": lambda units: Mechanism(LocationAware(units=units)),
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


def training(
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


def attention(
    operation: str, batch: int, length: int, size: int, derivative: bool
) -> Callable[[], None]:
    """Prepares the contexts of a batch, or gradients by parameters, queries and annotations."""
    mechanism = MECHANISMS[operation](size)
    queries, annotations = jnp.asarray(
        np.random.default_rng(0).normal(size=(2, batch, length, size)), jnp.float32
    )
    inputs = mechanism.init(jax.random.key(0), size, size), queries, annotations

    def contexts(parameters: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
        return attend_all(mechanism, parameters, queries, annotations)[0]

    def squares(*inputs) -> jax.Array:
        return (contexts(*inputs) ** 2).sum()

    run = jax.jit(jax.grad(squares, argnums=(0, 1, 2)) if derivative else contexts)
    return lambda: jax.block_until_ready(run(*inputs))


if __name__ == "__main__":
    serve(training, attention)
