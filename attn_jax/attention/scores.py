"""Scores: how well each annotation matches a query.

A score is a part (see `parts`) `score(query [Q], keys [S, A]) -> [S]`. Its `keys` function computes
once per sentence what does not depend on the query. A score of -∞ excludes a position; it must be
a constant, as in `jnp.where`, since the derivative of a computed one is NaN.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention.parts import Memory, Shapes, Sizes, bind, part
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError


def products(query: Float[Array, " A"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    """q · k_j, summed in float32 at least: half precision is too coarse for a softmax."""
    # Keys come first, in their memory layout: XLA's CPU backend would transpose a second factor,
    # which is slower.
    return widen(keys) @ widen(query)


def same_size(sizes: Sizes) -> Shapes:
    """The shapes (none) of a score that multiplies queries with the annotations themselves.

    Raises:
      InputError: queries and annotations have different sizes.
    """
    if sizes.Q != sizes.D:
        raise InputError(
            f"a dot score needs states and annotations of the same size, got Q={sizes.Q} and "
            f"D={sizes.D}: make them equal, use heads, or use the score 'general'"
        )
    return {}


def additive_shapes(sizes: Sizes) -> Shapes:
    """The shapes of the parameters of the additive score."""
    return {"W": (sizes.Q, sizes.A), "U": (sizes.D, sizes.A), "v": (sizes.A,)}


def additive_keys(annotations: Float[Array, "S D"], *, U: Float[Array, "D A"]) -> Array:
    """U h_j, [S, A]."""
    return annotations @ U


def _additive_query(query: Float[Array, " Q"], *, W: Float[Array, "Q A"]) -> Array:
    return query @ W


@jax.custom_jvp
def weighted(hidden: Float[Array, "S A"], v: Float[Array, " A"]) -> Float[Array, " S"]:
    """H v, the scores of hidden units H."""
    # A sum, kept apart from the computation of the units: in a loop, XLA's CPU backend runs a plain
    # product, or the two fused, on one core or slowly.
    return _total(jax.lax.optimization_barrier(hidden) * v)


def _total(terms: Float[Array, "S A"]) -> Float[Array, " S"]:
    return terms.sum(axis=-1, dtype=jnp.promote_types(terms.dtype, jnp.float32))


@weighted.defjvp
def _weighted_jvp(primals, tangents):
    (hidden, v), (of_hidden, of_v) = primals, tangents
    return weighted(hidden, v), _total(of_hidden * v) + hidden @ of_v


@jax.checkpoint
def _energies(
    query: Float[Array, " A"], keys: Float[Array, "S A"], *, v: Float[Array, " A"]
) -> Float[Array, " S"]:
    # The hidden units are recomputed for the derivative: storing those of all steps would take
    # T S A numbers, and more time.
    return weighted(jnp.tanh(query + keys), v)


@part(shapes=additive_shapes, keys=additive_keys, factored=(_additive_query, _energies))
def additive(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    W: Float[Array, "Q A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(W s + U h_j), a perceptron of one hidden layer.

    U h_j comes in as `keys`.

    Paper: Bahdanau, Cho and Bengio 2014, appendix A.1.2.
    Cost: time T S A (tanh), memory T S + S A.
    """
    return _energies(_additive_query(query, W=W), keys, v=v)


@part(shapes=same_size)
def dot(query: Float[Array, " A"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    """s · h_j.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S Q, memory T S.
    """
    return products(query, keys)


@part(shapes=same_size)
def scaled_dot(query: Float[Array, " A"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    """s · h_j / √Q.

    With this scale, the variance of a score does not grow with the size of the states.

    Paper: Vaswani et al. 2017, section 3.2.1, equation 1.
    Cost: time T S Q, memory T S.
    """
    return products(query, keys) / math.sqrt(query.size)


def _general_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.D)}


def _general_keys(annotations: Float[Array, "S D"], *, W: Float[Array, "Q D"]) -> Array:
    return annotations @ W.T


@part(shapes=_general_shapes, keys=_general_keys)
def general(query: Float[Array, " Q"], keys: Float[Array, "S Q"]) -> Float[Array, " S"]:
    """s · W h_j, bilinear.

    States and annotations may differ in size; W h_j comes in as `keys`.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S Q, memory T S + S Q.
    """
    return products(query, keys)


def _concat_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q + sizes.D, sizes.A), "v": (sizes.A,)}


def _concat_keys(annotations: Float[Array, "S D"], *, W: Float[Array, "QD A"]) -> Array:
    return annotations @ W[-annotations.shape[-1] :]


def _concat_query(query: Float[Array, " Q"], *, W: Float[Array, "QD A"]) -> Array:
    return query @ W[: query.size]


@part(shapes=_concat_shapes, keys=_concat_keys, factored=(_concat_query, _energies))
def concat(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    W: Float[Array, "QD A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(W [s; h_j]).

    The rows of W that multiply h_j are applied in `keys`. This is the additive score with W and U
    in one matrix, and so with one initial scale.

    Paper: Luong, Pham and Manning 2015, section 3.1, after equation 7.
    Cost: time T S A (tanh), memory T S + S A.
    """
    return _energies(_concat_query(query, W=W), keys, v=v)


def _unit(vectors: Float[Array, "... N"]) -> Float[Array, "... N"]:
    # A zero vector stays zero, with a finite gradient.
    wide = widen(vectors)
    squares = (wide**2).sum(axis=-1, keepdims=True)
    return wide * jax.lax.rsqrt(jnp.maximum(squares, jnp.finfo(wide.dtype).eps ** 2))


def _cosine_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.D), "w": (sizes.Q,), "b": ()}


@part(shapes=_cosine_shapes, keys=_unit, initial={"b": 1.0})
def cosine(
    query: Float[Array, " Q"],
    keys: Float[Array, "S D"],
    *,
    W: Float[Array, "Q D"],
    w: Float[Array, " Q"],
    b: Float[Array, ""],
) -> Float[Array, " S"]:
    """β cos(W s, h_j), sharpened by β = softplus(w · s + b).

    In the paper, the controller emits the key and a positive key strength; the linear map and the
    softplus are choices made here. h_j / ‖h_j‖ comes in as `keys`.

    Paper: Graves, Wayne and Danihelka 2014, section 3.3.1, equations 5 and 6.
    Cost: time T S D, memory T S + S D.
    """
    return jax.nn.softplus(w @ query + b) * products(_unit(query @ W), keys)


def _log_features(vectors: Float[Array, "... N"]) -> Float[Array, "... N"]:
    # log(elu(x) + 1), which is x where x is negative.
    return jnp.where(vectors > 0, jnp.log1p(jnp.maximum(vectors, 0)), vectors)


def _linear_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.A), "U": (sizes.D, sizes.A)}


def _linear_keys(annotations: Float[Array, "S D"], *, U: Float[Array, "D A"]) -> Array:
    return _log_features(annotations @ U)


def _linear_query(query: Float[Array, " Q"], *, W: Float[Array, "Q A"]) -> Array:
    return _log_features(query @ W)


@jax.checkpoint
def _log_products(query: Float[Array, " A"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    # The hidden units are recomputed for the derivative, as in `_energies`.
    return jax.nn.logsumexp(query + keys, axis=-1)


@part(shapes=_linear_shapes, keys=_linear_keys, factored=(_linear_query, _log_products))
def linear(
    query: Float[Array, " Q"], keys: Float[Array, "S A"], *, W: Float[Array, "Q A"]
) -> Float[Array, " S"]:
    """log(φ(W s) · φ(U h_j)) with φ(x) = elu(x) + 1.

    With softmax, this is the kernelised attention of the paper, φ(q)·φ(k_j) / Σ_l φ(q)·φ(k_l),
    including its projections, without which bounded states could not tell positions apart. Unlike
    in the paper, cost is not linear in length: the weights of each query are computed, since this
    project examines them, instead of sums over source positions that all queries share.
    log φ(U h_j) comes in as `keys`.

    Paper: Katharopoulos et al. 2020, section 3.2, equations 4 and 7.
    Cost: time T S A (exp), memory T S + S A.
    """
    return _log_products(_linear_query(query, W=W), keys)


def mean(query: Float[Array, " Q"], keys: Float[Array, "S A"]) -> Float[Array, " S"]:
    """0: the same weight on every real position.

    A control, to measure what attention gains over averaging.

    Paper: the uniform weights that Wiegreffe and Pinter 2019, section 3.2, compare with.
    Cost: time T S, memory T S.
    """
    return jnp.zeros(keys.shape[0], keys.dtype)


def last(
    query: Float[Array, " Q"], keys: Float[Array, "S A"], *, mask: Bool[Array, " S"]
) -> Float[Array, " S"]:
    """0 at the last real position, -∞ elsewhere: a fixed context.

    A control: an encoder-decoder without attention, whose decoder reads the last annotation at
    every step.

    Paper: Cho et al. 2014, section 2.2; Sutskever, Vinyals and Le 2014, section 2.
    Cost: time T S, memory T S.
    """
    positions = jnp.arange(mask.size)
    is_last = positions == jnp.max(jnp.where(mask, positions, -1))
    return jnp.where(is_last, 0, -jnp.inf).astype(keys.dtype)


def stacked(scores: list[Callable]) -> Callable:
    """Several scores as one of shape [C, S], for a normalizer that takes several.

    Its keys are a tuple, one for each score.
    """

    def score(
        query: Array, keys: tuple, *, step: Array, memory: Memory, mask: Array
    ) -> Float[Array, "C S"]:
        available = {"step": step, "memory": memory, "mask": mask, "query": query}
        pairs = zip(scores, keys, strict=True)
        return jnp.stack([bind(each, available)(query, its_keys) for each, its_keys in pairs])

    return score
