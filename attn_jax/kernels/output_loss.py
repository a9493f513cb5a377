"""The output layer, and the same fused with its loss, without the logits of all tokens at once.

A plain `cross_entropy` of the logits holds several arrays [N, V]. Here the logits are computed for
a part of the tokens at a time, whose gradient is computed together with the loss: the same three
products, with sums in float32 whatever the precision of the factors. It costs forward mode, and
another gradient than that of a sum is computed as a multiple of it.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attn_jax.kernels.factors import factor, row_major
from attn_jax.kernels.memory import Held
from attn_jax.kernels.products import matmul, of_inputs, plain_product

LOGITS = Held(cpu=2**21, other=2**26)  # 8 and 256 MiB, unless parts of F tokens need more


class Tokens(NamedTuple):
    """The features and targets of some tokens, and whether their losses are counted."""

    features: Float[Array, "N F"]
    targets: Int[Array, " N"]
    counted: Bool[Array, " N"]


def logits(
    features: Float[Array, "*any F"], matrix: Float[Array, "F V"], bias: Float[Array, " V"]
) -> Float[Array, "*any V"]:
    """x W + b, in float32 at least, computed before anything that reads it.

    XLA's CPU backend would fuse their product and the maximum of a softmax into one slower loop. It
    costs the memory of the logits, which are written and read once more.
    """
    return jax.lax.optimization_barrier(matmul(features, matrix)) + bias


def plain_logits(
    features: Float[Array, "*any F"], matrix: Float[Array, "F V"], bias: Float[Array, " V"]
) -> Float[Array, "*any V"]:
    """x W + b, in float32 at least."""
    return plain_product(features, matrix) + bias


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
        of_words = logits(tokens.features, matrix, bias)
        losses = cross_entropy(of_words, tokens.targets, label_smoothing)
        return total + losses.sum(where=tokens.counted), None

    matrix = factor(matrix)
    parts = _cut(Tokens(factor(features), targets, counted), bias.size)
    return jax.lax.scan(add, jnp.zeros(()), parts)[0]


def plain_output_loss(
    matrix: Float[Array, "F V"],
    bias: Float[Array, " V"],
    features: Float[Array, "N F"],
    targets: Int[Array, " N"],
    counted: Bool[Array, " N"],
    label_smoothing: float,
) -> Float[Array, ""]:
    """The sum, in nats, of the cross-entropies of the counted tokens, from all logits at once."""
    losses = cross_entropy(plain_logits(features, matrix, bias), targets, label_smoothing)
    return losses.sum(where=counted)


def cross_entropy(
    logits: Float[Array, "... V"], targets: Int[Array, "..."], label_smoothing: float = 0.0
) -> Float[Array, "..."]:
    """The cross-entropy with label smoothing, in nats: -log p(target) without smoothing.

    Label smoothing gives a share of the probability to the whole vocabulary. Szegedy et al. 2016,
    section 7.
    """
    return jax.nn.logsumexp(logits, axis=-1) - _expected_logit(logits, targets, label_smoothing)


def _expected_logit(
    logits: Float[Array, "... V"], targets: Int[Array, "..."], label_smoothing: float
) -> Float[Array, "..."]:
    """The expected logit under the smoothed distribution of the target."""
    chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    if not label_smoothing:
        return chosen
    return (1 - label_smoothing) * chosen + label_smoothing * logits.mean(axis=-1)


def _cut(tokens: Tokens, vocabulary: int) -> Tokens:
    """Cuts tokens into equal parts [P, N, ...], as large as `LOGITS` allows; the last is padded."""
    rows, features = tokens.features.shape
    # At least F tokens, so that adding a part's gradient of the matrix, [F, V], to the sum does not
    # take longer than a pass over its logits, [N, V].
    parts = -(-rows // max(LOGITS.here() // vocabulary, features))
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
        of_words = logits(tokens.features, matrix, bias)
        largest = of_words.max(axis=-1, keepdims=True)
        # Shared by the sum and the softmax; otherwise the backend would compute them twice.
        exponentials = jax.lax.optimization_barrier(jnp.exp(of_words - largest))
        normalizer = exponentials.sum(axis=-1, keepdims=True)
        losses = (largest + jnp.log(normalizer))[:, 0]
        losses -= _expected_logit(of_words, tokens.targets, smoothing)
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
