"""Attention of known queries in this project, as a side of the benchmark."""

from collections.abc import Callable

import jax

from attn_jax import Mechanism, attend_all
from attn_jax.attention.monotonic import Mocha
from attn_jax.attention.normalizers import Sparsemax
from attn_jax.attention.position_scores import Coverage, Gmm, LocationAware
from attn_jax.attention.scores import Additive, Dot, General

from .operations import drawing, repeating
from .side import serve

MECHANISMS: dict[str, Callable[[int], Mechanism]] = {  # by hidden units
    "additive": lambda units: Mechanism(Additive(units=units)),
    "general": lambda units: Mechanism(General()),
    "dot": lambda units: Mechanism(Dot()),
    "sparsemax": lambda units: Mechanism(Dot(), normalizer=Sparsemax()),
    "location_aware": lambda units: Mechanism(LocationAware(units=units)),
    "coverage": lambda units: Mechanism(Coverage(units=units)),
    "gmm": lambda units: Mechanism(Gmm()),
    "mocha": lambda units: Mechanism(Additive(units=units), normalizer=Mocha()),
}


def prepare(
    operation: str,
    batch: int,
    source_length: int,
    target_length: int,
    size: int,
    derivative: bool,
) -> Callable[[], None]:
    """Prepares the contexts of a batch, or gradients by queries, annotations and parameters."""
    mechanism = MECHANISMS[operation](size)
    drawn = drawing()
    parameters = mechanism.init(jax.random.key(0), size, size)
    queries = drawn(batch, target_length, size)
    annotations = drawn(batch, source_length, size)

    def contexts(parameters: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
        rng = jax.random.key(1)  # as in training: of those above, it changes mocha alone
        return attend_all(mechanism, parameters, queries, annotations, rng=rng)[0]

    return repeating(contexts, (parameters, queries, annotations), derivative)


if __name__ == "__main__":
    serve(prepare)
