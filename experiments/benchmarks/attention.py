"""Attention of known queries in this project, as a side of the benchmark."""

from collections.abc import Callable

import jax

from attn_jax import attend_all
from attn_jax.attention.catalogue import mechanism
from attn_jax.attention.parts import Sizes
from experiments.benchmarks.operations import drawing, repeating
from experiments.benchmarks.side import serve

MECHANISMS = {
    "additive": {"score": "additive"},
    "general": {"score": "general"},
    "dot": {"score": "dot"},
    "sparsemax": {"score": "dot", "normalizer": "sparsemax"},
    "location_aware": {"score": "location_aware"},
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
    names = MECHANISMS[operation]
    score = mechanism(**names).score
    drawn = drawing()
    parameters = {
        name: drawn(*shape) / size**0.5
        for name, shape in score.shapes(Sizes(size, size, size)).items()
    }
    queries = drawn(batch, target_length, size)
    annotations = drawn(batch, source_length, size)

    def contexts(parameters: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
        function = score.bound(parameters)

        def sentence(queries: jax.Array, annotations: jax.Array) -> jax.Array:
            keys = score.keys(annotations, parameters)
            return attend_all(queries, keys, annotations, **(names | {"score": function}))[0]

        return jax.vmap(sentence)(queries, annotations)

    return repeating(contexts, (parameters, queries, annotations), derivative)


if __name__ == "__main__":
    serve(prepare)
