"""Attention of one query over one sentence: score, restrict to a window, normalise, sum."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attn_jax.attention import steps
from attn_jax.attention.catalogue import Mechanism, mechanism
from attn_jax.attention.parts import Memory, Sizes, name_of
from attn_jax.attention.steps import Keys
from attn_jax.errors import InputError


def context(weights: Float[Array, " S"], values: Float[Array, "S D"]) -> Float[Array, " D"]:
    """Σ_j α_j h_j, in the dtype of the values. Bahdanau, Cho and Bengio 2014, equation 5."""
    return weights.astype(values.dtype) @ values


def attend(
    query: Float[Array, " Q"],
    keys: Keys,
    values: Float[Array, "S D"],
    mask: Bool[Array, " S"] | None = None,
    *,
    score: str | Callable,
    window: str | Callable = "full",
    normalizer: str | Callable = "auto",
    rng: Array | None = None,
) -> tuple[Float[Array, " D"], Float[Array, " S"]]:
    """Attends from one query to one sentence.

    Use `jax.vmap` for batches and heads. Every call is the first step of a sentence: where a
    mechanism depends on previous steps or on the number of the step, use `attend_all`, or `begin`
    and `attend_step`.

    Args:
      query: decoder state.
      keys: what the score compares the query with, computed once per sentence, usually [S, A].
      values: the annotations to sum. Keys and values must be finite, also where the mask is False.
      mask: True where the query may attend; None: everywhere. Windows and scores of positions count
        masked positions too, and `forward` does not cross them.
      score: a function `(query, keys) -> [S]`, its parameters bound by `functools.partial`, or the
        name of a score without parameters, such as `scaled_dot`.
      window: a function `(query, mask) -> (support [S], gain [S])` or a name, such as
        `local_m(half_width=3)`.
      normalizer: a function `(scores, mask) -> weights [S]` or a name, such as
        `entmax(alpha=1.25)`; `auto` is the default of the score, usually softmax.
      rng: random key for normalizers with noise; None: no noise.

    Returns:
      The context, in the dtype of the values, and the weights, in float32 at least. The weights sum
      to 1 with most normalizers; all are 0 if the mask is False everywhere.

    Raises:
      InputError: a name is unknown or names a part with parameters, a parameter is not bound, the
        parts cannot be combined, or the query, the values, the mask or the scores have a wrong
        shape or dtype.
    """
    query = _query(query)
    _check_keys(keys)
    values, mask = _sentence(values, mask)
    parts = _ready(score, window, normalizer)
    _, weights = steps.weigh(parts, steps.begin(parts, mask), query, keys, mask, rng)
    return context(weights, values), weights


def _array(what: str, given: Array, axes: str) -> Array:
    """An argument as an array, after checking the number of its axes."""
    array = jnp.asarray(given)
    if array.ndim != len(axes.split()):
        raise InputError(
            f"the {what} must be [{axes.replace(' ', ', ')}] of one sentence (jax.vmap adds a "
            f"batch), got {list(array.shape)}"
        )
    return array


def _query(query: Array) -> Float[Array, " Q"]:
    """The query as an array, after checking its axes."""
    return _array("query (attend_all takes several)", query, "Q")


def _check_keys(keys: Any) -> None:
    """Raises InputError if keys are not arrays, as lists of numbers are not."""
    for leaf in jax.tree.leaves(keys):
        if not hasattr(leaf, "shape"):
            raise InputError(f"the keys must be arrays, got {type(leaf).__name__} among them")


def _mask(mask: Array) -> Bool[Array, " S"]:
    """The mask as an array, after checking its axes and dtype."""
    mask = _array("mask", mask, "S")
    if mask.dtype != bool:
        raise InputError(f"the mask must be bool, got {mask.dtype}")
    return mask


def _sentence(values: Array, mask: Array | None) -> tuple[Array, Bool[Array, " S"]]:
    """The values and their mask as arrays, after checking their shapes and dtypes."""
    values = _array("values", values, "S D")
    if not len(values):
        raise InputError("the values are those of no position: a sentence has at least one")
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise InputError(f"the values must be floating-point numbers, got {values.dtype}")
    mask = jnp.ones_like(values[:, 0], bool) if mask is None else _mask(mask)
    if len(mask) != len(values):
        raise InputError(f"the mask is of {len(mask)} positions, the values are of {len(values)}")
    return values, mask


def attend_all(
    queries: Float[Array, "T Q"],
    keys: Keys,
    values: Float[Array, "S D"],
    mask: Bool[Array, " S"] | None = None,
    *,
    score: str | Callable,
    window: str | Callable = "full",
    normalizer: str | Callable = "auto",
    rng: Array | None = None,
) -> tuple[Float[Array, "T D"], Float[Array, "T S"]]:
    """Attends from each of a sequence of queries to one sentence. To be used under `jax.jit`.

    Queries are processed in parallel where possible. A mechanism that looks back processes them one
    after another. A score with hidden units is computed for one query at a time, since those of all
    queries would take T S A numbers.

    The arguments are those of `attend`. Returns the contexts and the weights.

    Raises:
      InputError: as in `attend`, or the queries are not [T, Q].
    """
    _check_keys(keys)
    values, mask = _sentence(values, mask)
    queries = _array("queries", queries, "T Q")
    weights = steps.weigh_all(_ready(score, window, normalizer), queries, keys, mask, rng)
    return jax.vmap(context, in_axes=(0, None))(weights, values), weights


def _ready(score: str | Callable, window: str | Callable, normalizer: str | Callable) -> Mechanism:
    """The mechanism, after checking that all of its parameters are bound."""
    parts = mechanism(score, window, normalizer)
    names = {"score": score, "window": window, "normalizer": normalizer}
    for part, (what, name) in zip(parts, names.items(), strict=True):
        # Nothing can be bound to a name, nor does it make keys of annotations with parameters.
        known = list(part.shapes(Sizes(1, 1, 1))) if isinstance(name, str) else part.required
        if known:
            advice = ["pass the function"]
            if part.required:
                advice.append(f"with {', '.join(part.required)} bound by functools.partial")
            if of_keys := [f"{name}=…" for name in known if name not in part.required]:
                made = ", ".join(of_keys)
                advice.append(f"and the keys that its keys(annotations, {made}) makes")
            raise InputError(
                f"the {what} {name_of(part.function)} has parameters ({', '.join(known)}): "
                + ", ".join(advice)
            )
    return parts


def attend_step(
    memory: Memory | None,
    query: Float[Array, " Q"],
    keys: Keys,
    values: Float[Array, "S D"],
    mask: Bool[Array, " S"] | None = None,
    *,
    score: str | Callable,
    window: str | Callable = "full",
    normalizer: str | Callable = "auto",
    rng: Array | None = None,
) -> tuple[Memory | None, Float[Array, " D"], Float[Array, " S"]]:
    """Attends from the next query of a sequence, given the memory of the previous ones.

    Args:
      memory: what the previous step returned; at the first step, what `begin` returned.

    The other arguments are those of `attend`. Returns the new memory, the context and the weights.

    Raises:
      InputError: as in `attend`, or the mechanism needs a memory and there is none, or one of
        another length.
    """
    query = _query(query)
    _check_keys(keys)
    values, mask = _sentence(values, mask)
    if memory is not None and memory.weights.shape != mask.shape:
        raise InputError(
            f"the memory is of a sentence of {memory.weights.size} positions, the mask of one of "
            f"{mask.size}"
        )
    parts = _ready(score, window, normalizer)
    memory, weights = steps.weigh(parts, memory, query, keys, mask, rng)
    return memory, context(weights, values), weights


def begin(
    mask: Bool[Array, " S"],
    *,
    score: str | Callable,
    window: str | Callable = "full",
    normalizer: str | Callable = "auto",
) -> Memory | None:
    """The memory of a mechanism before the first query; None if it needs none.

    Args:
      mask: True where the queries may attend.
      score, window, normalizer: as in `attend`.

    Raises:
      InputError: a name is unknown or names a part with parameters, a parameter is not bound, the
        parts cannot be combined, or the mask has a wrong shape or dtype.
    """
    mask = _mask(mask)
    return steps.begin(_ready(score, window, normalizer), mask)
