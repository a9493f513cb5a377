"""Scores: how well each annotation matches a query.

A score is a function `score(query [Q], keys [S, A], **parameters) -> [S]` of one query and one
sentence; `jax.vmap` makes it a function of batches. It may carry two attributes, which the
decorator `score` sets and which have defaults, so that a plain function is a score too:

- `keys(annotations [S, D], **parameters) -> [S, A]` does once per sentence what does not depend on
  the query (the identity by default);
- `shapes(sizes) -> {name: shape}` names the parameters, so that a model can own them (none by
  default).

Each half takes the parameters it needs by keyword and lets the others pass.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from attn_jax.errors import InputError, choose

Shapes = dict[str, tuple[int, ...]]


class Sizes(NamedTuple):
    """Features of a decoder state, of an annotation, and units of an alignment model."""

    Q: int
    D: int
    A: int


def identity(annotations: Float[Array, "S D"], **_: Array) -> Float[Array, "S D"]:
    """Keys that are the annotations themselves."""
    return annotations


def parameterless(sizes: Sizes) -> Shapes:
    """The shapes of a score that has no parameters."""
    return {}


def same_size(sizes: Sizes) -> Shapes:
    """The shapes of a score that multiplies a query with annotations as they are.

    Raises:
      InputError: queries and annotations have different sizes.
    """
    if sizes.Q != sizes.D:
        raise InputError(
            f"a dot score needs states and annotations of one size, got Q={sizes.Q} and "
            f"D={sizes.D}: give both the same size or use the score 'general'"
        )
    return {}


def score(*, shapes: Callable = parameterless, keys: Callable = identity) -> Callable:
    """Attaches to a score the names of its parameters and its once-per-sentence half."""

    def attach(function: Callable) -> Callable:
        function.shapes, function.keys = shapes, keys
        return function

    return attach


def _additive_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.A), "U": (sizes.D, sizes.A), "v": (sizes.A,)}


def _additive_keys(
    annotations: Float[Array, "S D"], *, U: Float[Array, "D A"], **_: Array
) -> Float[Array, "S A"]:
    return annotations @ U


@score(shapes=_additive_shapes, keys=_additive_keys)
def additive(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    W: Float[Array, "Q A"],
    v: Float[Array, " A"],
    **_: Array,
) -> Float[Array, " S"]:
    """v · tanh(W s + U h_j), a perceptron of one hidden layer.

    Bahdanau, Cho and Bengio 2014, appendix A.1.2; U h_j comes in as `keys`.
    """
    return jnp.tanh(query @ W + keys) @ v


@score(shapes=same_size)
def dot(query: Float[Array, " A"], keys: Float[Array, "S A"], **_: Array) -> Float[Array, " S"]:
    """s · h_j. Luong, Pham and Manning 2015, equation 8."""
    return keys @ query


@score(shapes=same_size)
def scaled_dot(
    query: Float[Array, " A"], keys: Float[Array, "S A"], **_: Array
) -> Float[Array, " S"]:
    """s · h_j / √Q: the variance of a score does not grow with the size of a state.

    Vaswani et al. 2017, section 3.2.1.
    """
    return keys @ query / jnp.sqrt(query.size).astype(query.dtype)


def _general_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q, sizes.D)}


def _general_keys(
    annotations: Float[Array, "S D"], *, W: Float[Array, "Q D"]
) -> Float[Array, "S Q"]:
    return annotations @ W.T


@score(shapes=_general_shapes, keys=_general_keys)
def general(query: Float[Array, " Q"], keys: Float[Array, "S Q"], **_: Array) -> Float[Array, " S"]:
    """s · W h_j, bilinear: states and annotations may differ in size.

    Luong, Pham and Manning 2015, equation 8; W h_j comes in as `keys`.
    """
    return keys @ query


def _concat_shapes(sizes: Sizes) -> Shapes:
    return {"W": (sizes.Q + sizes.D, sizes.A), "v": (sizes.A,)}


def _concat_keys(
    annotations: Float[Array, "S D"], *, W: Float[Array, "QD A"], **_: Array
) -> Float[Array, "S A"]:
    return annotations @ W[-annotations.shape[-1] :]


@score(shapes=_concat_shapes, keys=_concat_keys)
def concat(
    query: Float[Array, " Q"],
    keys: Float[Array, "S A"],
    *,
    W: Float[Array, "QD A"],
    v: Float[Array, " A"],
) -> Float[Array, " S"]:
    """v · tanh(W [s; h_j]).

    Luong, Pham and Manning 2015, equation 8. The rows of W that meet h_j are applied in `keys`;
    one matrix over both is the additive score in which W and U share their initial scale.
    """
    return jnp.tanh(query @ W[: query.size] + keys) @ v


def constant(
    query: Float[Array, " Q"], keys: Float[Array, "S A"], **_: Array
) -> Float[Array, " S"]:
    """The same score everywhere, under the controls, whose weights do not depend on the query."""
    return jnp.zeros(keys.shape[0], keys.dtype)


SCORES: dict[str, Callable] = {
    "additive": additive,
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "concat": concat,
}


def resolve(score: str | Callable) -> Callable:
    """A score from its name, from `module:function`, or itself.

    Raises:
      InputError: there is no such name, module or function.
    """
    if callable(score):
        return score
    if ":" not in score:
        return choose(SCORES, score, "score")
    module, _, name = score.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"cannot use {score!r} as a score: {error}") from error


def keys(score: Callable, annotations: Array, **parameters: Any) -> Array:
    """The keys of a score for one sentence, [S, A]."""
    return getattr(score, "keys", identity)(annotations, **parameters)


def shapes(score: Callable, sizes: Sizes) -> Shapes:
    """The names and shapes of a score's parameters."""
    return getattr(score, "shapes", parameterless)(sizes)
