"""The output layer fused with its loss, without the logits of all tokens at once.

A plain `cross_entropy` of the logits holds several arrays [N, V]. Here the logits are computed for
a part of the tokens at a time, whose gradient is computed together with the loss: the same three
products, with sums in float32 whatever the precision of the factors.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.models.factors import factor, row_major
from attn_jax.models.linear import matmul, of_inputs
from attn_jax.training.losses import cross_entropy, expected_logit

LOGITS = 2**21  # held at once, 8 MiB, unless parts of F tokens need more


class Tokens(NamedTuple):
    """The features and targets of some tokens, and whether their losses are counted."""

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
    """The sum, in nats, of the cross-entropies of the counted tokens."""

    def add(total: Array, tokens: Tokens) -> tuple[Array, None]:
        losses = cross_entropy(_logits(matrix, bias, tokens), tokens.targets, label_smoothing)
        return total + losses.sum(where=tokens.counted), None

    matrix = factor(matrix)
    parts = _cut(Tokens(factor(features), targets, counted), bias.size)
    return jax.lax.scan(add, jnp.zeros(()), parts)[0]


def _logits(matrix: Array, bias: Array, tokens: Tokens) -> Float[Array, "N V"]:
    # XLA's CPU backend would fuse the product and the softmax's maximum into one slower loop.
    return jax.lax.optimization_barrier(matmul(tokens.features, matrix)) + bias


def _cut(tokens: Tokens, vocabulary: int) -> Tokens:
    """Cuts tokens into equal parts [P, N, ...], as large as `LOGITS` allows; the last is padded."""
    rows, features = tokens.features.shape
    # At least F tokens, so that adding a part's gradient of the matrix, [F, V], to the sum does not
    # take longer than a pass over its logits, [N, V].
    parts = -(-rows // max(LOGITS // vocabulary, features))
    size = -(-rows // parts)

    def cut(leaf: Array) -> Array:
        lacking = [(0, parts * size - rows)] + [(0, 0)] * (leaf.ndim - 1)
        return jnp.pad(leaf, lacking).reshape(parts, size, *leaf.shape[1:])

    return jax.tree.map(cut, tokens)


def _forward(
    matrix: Array, bias: Array, features: Array, targets: Array, counted: Array, smoothing: float
) -> tuple[Array, tuple[Array, Array, Array]]:
    def add(sums: tuple, part: tuple) -> tuple[tuple, Array]:
        tokens, columns = part
        targets, counted = tokens.targets[:, None], tokens.counted[:, None]
        total, of_matrix, of_bias = sums
        logits = _logits(matrix, bias, tokens)
        largest = logits.max(axis=-1, keepdims=True)
        # Shared by the sum and the softmax; otherwise the backend would compute them twice.
        exponentials = jax.lax.optimization_barrier(jnp.exp(logits - largest))
        normalizer = exponentials.sum(axis=-1, keepdims=True)
        losses = (largest + jnp.log(normalizer))[:, 0]
        losses -= expected_logit(logits, tokens.targets, smoothing)
        total += losses.sum(where=tokens.counted)

        of_logits = exponentials * (counted / normalizer) - counted * share
        of_logits -= jnp.where(targets == words, counted * (1 - smoothing), 0)
        of_logits = factor(of_logits)  # for all uses below, so that it is written once
        of_bias += of_logits.sum(axis=0, dtype=of_bias.dtype)
        of_matrix += matmul(columns, of_logits)
        return (total, of_matrix, of_bias), of_inputs(of_logits, matrix)

    words, share = jnp.arange(bias.size), smoothing / bias.size
    sums = jnp.zeros(()), jnp.zeros_like(matrix), jnp.zeros_like(bias)
    matrix, features = factor(matrix), factor(features)
    parts = _cut(Tokens(features, targets, counted), bias.size)
    columns = row_major(parts.features.mT)
    (total, of_matrix, of_bias), of_features = jax.lax.scan(add, sums, (parts, columns))
    of_features = of_features.reshape(-1, features.shape[1])[: len(features)]
    # XLA may make its transposition, for tied embeddings, part of the product.
    return total, (row_major(of_matrix), of_bias, of_features)


def _backward(smoothing: float, gradients: tuple, by: Float[Array, ""]) -> tuple:
    return *(by * gradient for gradient in gradients), None, None


output_loss.defvjp(_forward, _backward)
