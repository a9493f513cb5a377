"""The output layer fused with its loss, without the logits of all tokens at once.

A plain `cross_entropy` of the logits holds several arrays [N, V]. Here the logits are computed for
a part of the tokens at a time, whose gradient is computed together with the loss: the same three
products, with sums in float32 whatever the precision of the factors.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from attn_jax.models.factors import factor, row_major
from attn_jax.models.linear import multiply, of_inputs
from attn_jax.training.losses import cross_entropy, expected

LOGITS = 2**21  # held at once, 8 MiB, unless parts of F tokens need more


class Tokens(NamedTuple):
    """The features and targets of some tokens, and the weights of their losses in the sum."""

    features: Float[Array, "N F"]
    targets: Int[Array, " N"]
    weights: Float[Array, " N"]


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def output_loss(
    matrix: Float[Array, "F V"],
    bias: Float[Array, " V"],
    features: Float[Array, "N F"],
    targets: Int[Array, " N"],
    weights: Float[Array, " N"],
    label_smoothing: float,
) -> Float[Array, ""]:
    """The weighted sum, in nats, of the cross-entropies; weights are not differentiated."""

    def add(total: Array, part: tuple) -> tuple[Array, None]:
        tokens, biased_features = part
        logits = _logits(biased_features, biased)
        losses = cross_entropy(logits, tokens.targets, label_smoothing)
        return total + (tokens.weights * losses).sum(), None

    biased = _with_bias(factor(matrix), bias)
    parts = _cut(Tokens(factor(features), targets, weights), bias.size)
    return jax.lax.scan(add, jnp.zeros(()), (parts, _with_ones(parts.features, biased)))[0]


def _with_bias(matrix: Float[Array, "F V"], bias: Float[Array, " V"]) -> Float[Array, "F+R V"]:
    """[W; b], which gives x W + b in one product, [x 1] [W; b].

    XLA's CPU backend would add the bias in a pass of its own over all logits. If the matrix is
    rounded, the bias is the sum of two rows, so that it keeps twice as many digits.
    """
    high = bias.astype(matrix.dtype)
    rows = [high] if high.dtype == bias.dtype else [high, (bias - high).astype(matrix.dtype)]
    return jnp.vstack([matrix, *rows])


def _with_ones(features: Float[Array, "*any F"], biased: Array) -> Float[Array, "*any F+R"]:
    """The features, followed by 1 for each row of the bias."""
    *leading, size = features.shape
    ones = jnp.ones((*leading, len(biased) - size), features.dtype)
    return jnp.concatenate([features, ones], axis=-1)


def _logits(features: Float[Array, "N F+R"], biased: Float[Array, "F+R V"]) -> Float[Array, "N V"]:
    # XLA's CPU backend would fuse the product and the softmax's maximum into one slower loop.
    return jax.lax.optimization_barrier(multiply(features, biased))


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
    matrix: Array, bias: Array, features: Array, targets: Array, weights: Array, smoothing: float
) -> tuple[Array, tuple[Array, Array, Array]]:
    def add(sums: tuple, part: tuple) -> tuple[tuple, Array]:
        tokens, biased_features, columns = part
        targets, weights = tokens.targets[:, None], tokens.weights[:, None]
        total, of_matrix, of_bias = sums
        logits = _logits(biased_features, biased)
        largest = logits.max(axis=-1, keepdims=True)
        # Shared by the sum and the softmax; otherwise the backend would compute them twice.
        exponentials = jax.lax.optimization_barrier(jnp.exp(logits - largest))
        normalizer = exponentials.sum(axis=-1, keepdims=True)
        losses = (largest + jnp.log(normalizer))[:, 0] - expected(logits, tokens.targets, smoothing)
        total += (tokens.weights * losses).sum()

        of_logits = exponentials * (weights / normalizer) - weights * share
        of_logits -= jnp.where(targets == words, weights * (1 - smoothing), 0)
        of_logits = factor(of_logits)  # for all uses below, so that it is written once
        of_bias += of_logits.sum(axis=0, dtype=of_bias.dtype)
        of_matrix += multiply(columns, of_logits)
        return (total, of_matrix, of_bias), of_inputs(of_logits, matrix)

    words, share = jnp.arange(bias.size), smoothing / bias.size
    sums = jnp.zeros(()), jnp.zeros_like(matrix), jnp.zeros_like(bias)
    matrix, features = factor(matrix), factor(features)
    biased = _with_bias(matrix, bias)
    parts = _cut(Tokens(features, targets, weights), bias.size)
    inputs = parts, _with_ones(parts.features, biased), row_major(parts.features.mT)
    (total, *of_parameters), of_features = jax.lax.scan(add, sums, inputs)
    of_features = of_features.reshape(-1, features.shape[1])[: len(features)]
    return total, (*of_parameters, of_features)


def _backward(smoothing: float, gradients: tuple, by: Float[Array, ""]) -> tuple:
    return *(by * gradient for gradient in gradients), None, None


output_loss.defvjp(_forward, _backward)
