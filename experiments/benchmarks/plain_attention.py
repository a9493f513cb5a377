"""Straightforward attention of known queries in jnp, as a side of the benchmark."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from .operations import drawing, repeating
from .side import serve


def sparsemax(scores: jax.Array) -> jax.Array:
    """The point of the simplex that is closest to the scores, along the last axis."""
    descending = -jnp.sort(-scores, axis=-1)
    ranks = jnp.arange(1, scores.shape[-1] + 1)
    sums = jnp.cumsum(descending, axis=-1)
    support = (1 + ranks * descending > sums).sum(axis=-1, keepdims=True)
    threshold = (jnp.take_along_axis(sums, support - 1, axis=-1) - 1) / support
    return jnp.maximum(scores - threshold, 0)


def location_aware(p: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
    """The contexts, one query after the other."""
    keys, width = annotations @ p["U"], len(p["F"])

    def step(before: jax.Array, query: jax.Array) -> tuple[jax.Array, jax.Array]:
        padded = jnp.pad(before, ((0, 0), (width // 2, (width - 1) // 2)))
        around = padded[:, jnp.arange(keys.shape[1])[:, None] + jnp.arange(width)]
        hidden = jnp.tanh((query @ p["W"])[:, None] + keys + around @ p["F"] @ p["V"] + p["b"])
        weights = jax.nn.softmax(hidden @ p["v"])
        return weights, jnp.einsum("BS,BSD->BD", weights, annotations)

    nothing = jnp.zeros(keys.shape[:2])
    _, contexts = jax.lax.scan(step, nothing, jnp.swapaxes(queries, 0, 1))
    return jnp.swapaxes(contexts, 0, 1)


def additive_scores(p: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
    """[B, T, S]."""
    hidden = jnp.tanh((queries @ p["W"])[:, :, None] + (annotations @ p["U"])[:, None])
    return hidden @ p["v"]


def dot_scores(p: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
    """[B, T, S]."""
    return jnp.einsum("BTA,BSA->BTS", queries, annotations)


def general_scores(p: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
    """[B, T, S]."""
    return dot_scores(p, queries @ p["W"], annotations)


SCORES = {
    "additive": additive_scores,
    "general": general_scores,
    "dot": dot_scores,
    "sparsemax": dot_scores,
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
    shapes = {"W": (size, size)}
    if operation in ("additive", "location_aware"):
        shapes |= {"U": (size, size), "v": (size,)}
    if operation == "location_aware":
        shapes |= {"F": (11, 10), "V": (10, size), "b": (size,)}
    drawn = drawing()
    parameters = {name: drawn(*shape) / size**0.5 for name, shape in shapes.items()}
    queries = drawn(batch, target_length, size)
    annotations = drawn(batch, source_length, size)

    def contexts(parameters: dict, queries: jax.Array, annotations: jax.Array) -> jax.Array:
        if operation == "location_aware":
            return location_aware(parameters, queries, annotations)
        scores = SCORES[operation](parameters, queries, annotations)
        weights = sparsemax(scores) if operation == "sparsemax" else jax.nn.softmax(scores)
        return jnp.einsum("BTS,BSD->BTD", weights, annotations)

    return repeating(contexts, (parameters, queries, annotations), derivative)


if __name__ == "__main__":
    serve(prepare)
