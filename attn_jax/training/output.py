"""The output layer and its loss together, without the logits of all tokens at once.

The plain way, `cross_entropy` of the logits, holds [N, V] several times over. Here a part of the
tokens at a time has logits, and its share of the gradient is taken along with its loss: the same
three products, with sums in float32 whatever the factors are in.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.models.embeddings import wide_product
from attn_jax.training.losses import cross_entropy

LOGITS = 2**21  # held at once, 8 MiB


class Tokens(NamedTuple):
    """What is known of some tokens."""

    features: Float[Array, "N F"]
    targets: Int[Array, " N"]
    counted: Bool[Array, " N"]


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def output_loss(
    matrix: Float[Array, "F V"],
    bias: Float[Array, " V"],
    features: Float[Array, "N F"],
    targets: Int[Array, " N"],
    counted: Bool[Array, " N"],
    label_smoothing: float,
) -> Float[Array, ""]:
    """The sum in nats of the cross-entropies of those tokens that are counted."""

    def add(total: Array, tokens: Tokens) -> tuple[Array, None]:
        return total + _loss(_logits(matrix, bias, tokens), tokens, label_smoothing), None

    total, _ = _over_parts(add, jnp.zeros(()), Tokens(features, targets, counted), bias.size)
    return total


def _logits(matrix: Array, bias: Array, tokens: Tokens) -> Float[Array, "N V"]:
    # XLA's CPU backend would make one slower loop of the product and the softmax's maximum.
    return jax.lax.optimization_barrier(wide_product(tokens.features, matrix)) + bias


def _loss(logits: Array, tokens: Tokens, label_smoothing: float) -> Float[Array, ""]:
    return cross_entropy(logits, tokens.targets, label_smoothing).sum(where=tokens.counted)


def _over_parts(add: Callable, sums: tuple, tokens: Tokens, vocabulary: int) -> tuple:
    """Scans parts of the tokens, as large as their logits allow; the last one is filled up."""
    rows = len(tokens.targets)
    parts = -(-rows * vocabulary // LOGITS)
    size = -(-rows // parts)

    def cut(leaf: Array) -> Array:
        lacking = [(0, parts * size - rows)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, lacking).reshape(parts, size, *leaf.shape[1:])

    return jax.lax.scan(add, sums, jax.tree.map(cut, tokens))


def _forward(
    matrix: Array, bias: Array, features: Array, targets: Array, counted: Array, smoothing: float
) -> tuple[Array, tuple[Array, Array, Array]]:
    # Copies in the order of the products, which are slower with factors that lie across.
    across = jax.lax.optimization_barrier(matrix.T)

    def add(sums: tuple, tokens: Tokens) -> tuple[tuple, Array]:
        total, of_matrix, of_bias = sums
        logits = _logits(matrix, bias, tokens)
        total += _loss(logits, tokens, smoothing)

        counted = tokens.counted[:, None]
        softmax = jnp.exp(logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True))
        of_logits = jnp.where(counted, softmax - smoothing / bias.size, 0)
        own = jnp.where(tokens.counted, 1 - smoothing, 0)
        of_logits = of_logits.at[jnp.arange(len(own)), tokens.targets].add(-own)

        of_bias += of_logits.sum(axis=0)
        of_logits = of_logits.astype(features.dtype)
        columns = jax.lax.optimization_barrier(tokens.features.T)
        of_matrix += wide_product(columns, of_logits)
        return (total, of_matrix, of_bias), wide_product(of_logits, across).astype(features.dtype)

    wide = jnp.promote_types(matrix.dtype, jnp.float32)
    sums = jnp.zeros(()), jnp.zeros(matrix.shape, wide), jnp.zeros(bias.shape, wide)
    tokens = Tokens(features, targets, counted)
    (total, *of_parameters), of_features = _over_parts(add, sums, tokens, bias.size)
    of_features = of_features.reshape(-1, features.shape[1])[: len(features)]
    return total, (*of_parameters, of_features)


def _backward(smoothing: float, gradients: tuple, by: Float[Array, ""]) -> tuple:
    of_matrix, of_bias, of_features = gradients
    dtype = of_features.dtype
    return (
        (by * of_matrix).astype(dtype),
        (by * of_bias).astype(dtype),
        by.astype(dtype) * of_features,
        None,
        None,
    )


output_loss.defvjp(_forward, _backward)
