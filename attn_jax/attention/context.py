"""Attention of one query over one sentence: score, restrict to a window, normalise, sum."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.catalogue import Mechanism, mechanism
from attn_jax.attention.parts import Memory, Part, Sizes, name_of
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError

Keys = PyTree[Float[Array, "S ..."]]


def context(weights: Float[Array, " S"], values: Float[Array, "S D"]) -> Float[Array, " D"]:
    """Σ_j α_j h_j. Bahdanau, Cho and Bengio 2014, equation 5."""
    return weights @ values


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
        parts cannot be combined, or the values, the mask or the scores have a wrong shape or dtype.
    """
    values, mask = _sentence(values, mask)
    parts = {"score": score, "window": window, "normalizer": normalizer}
    memory = begin(mask, **parts)
    _, read, weights = attend_step(memory, query, keys, values, mask, **parts, rng=rng)
    return read, weights


def _sentence(values: Array, mask: Array | None) -> tuple[Array, Bool[Array, " S"]]:
    """The values and their mask as arrays, after checking their shapes and dtypes."""
    values = jnp.asarray(values)
    if values.ndim != 2 or not len(values):
        raise InputError(f"the values must be [S, D], S at least 1, got {list(values.shape)}")
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise InputError(f"the values must be floating-point numbers, got {values.dtype}")
    mask = jnp.ones_like(values[:, 0], bool) if mask is None else jnp.asarray(mask)
    if mask.shape != values.shape[:1] or mask.dtype != bool:
        raise InputError(
            f"the mask must be bool [{len(values)}], like the values, got {mask.dtype} "
            f"{list(mask.shape)}"
        )
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
    values, mask = _sentence(values, mask)
    if queries.ndim != 2:
        raise InputError(f"the queries must be [T, Q], got {list(queries.shape)}")
    chosen = _ready(score, window, normalizer)
    parts = {part: getattr(chosen, part).bound({}) for part in chosen._fields}
    memory = begin(mask, **parts)
    rngs = None if rng is None else jax.random.split(rng, len(queries))

    def step(memory: Memory | None, query: Array, keys: Keys, rng: Array | None) -> tuple:
        memory, *read = attend_step(memory, query, keys, values, mask, **parts, rng=rng)
        return memory, tuple(read)

    if chosen.looks_back:
        inputs = queries, rngs
        return jax.lax.scan(lambda memory, i: step(memory, i[0], keys, i[1]), memory, inputs)[1]

    def alone(nth: Array, *inputs: Any) -> tuple:
        return step(memory and memory._replace(step=nth), *inputs)[1]

    steps = jnp.arange(len(queries))
    if chosen.score.hidden is None:
        return jax.vmap(alone, in_axes=(0, 0, None, 0))(steps, queries, keys, rngs)
    project, meet = chosen.score.hidden
    scores = jax.lax.map(lambda projected: meet(projected, keys), jax.vmap(project)(queries))

    def known(query: Array, keys: Array) -> Array:
        return keys  # the scores, already computed

    known.__name__ = name_of(chosen.score.function)  # for the error messages of `weigh_step`
    parts["score"] = known
    return jax.vmap(alone)(steps, queries, scores, rngs)


def _ready(score: str | Callable, window: str | Callable, normalizer: str | Callable) -> Mechanism:
    """The mechanism, after checking that all of its parameters are bound."""
    parts = mechanism(score, window, normalizer)
    given = {"score": score, "window": window, "normalizer": normalizer}
    for part, (what, name) in zip(parts, given.items(), strict=True):
        # Nothing can be bound to a name, not even the parameters that only its `keys` take.
        lacking = list(part.shapes(Sizes(1, 1, 1))) if isinstance(name, str) else part.required
        if lacking:
            raise InputError(
                f"the {what} {name_of(part.function)} has parameters "
                f"({', '.join(lacking)}): pass the function, with its parameters bound by "
                "functools.partial"
            )
    return parts


def attend_step(
    memory: Memory | None,
    query: Float[Array, " Q"],
    keys: Keys,
    values: Float[Array, "S D"],
    mask: Bool[Array, " S"],
    **how: Any,
) -> tuple[Memory | None, Float[Array, " D"], Float[Array, " S"]]:
    """Attends from the next query of a sequence, given the memory of the previous ones.

    Args:
      memory: what the previous step returned; at the first step, what `begin` returned.

    The other arguments are those of `attend`. Returns the new memory, the context and the weights.

    Raises:
      InputError: as in `attend`, or the mechanism needs a memory and there is none.
    """
    values, mask = _sentence(values, mask)
    memory, weights = weigh_step(memory, query, keys, mask, **how)
    return memory, context(weights.astype(values.dtype), values), weights


def weigh_step(
    memory: Memory | None,
    query: Float[Array, " Q"],
    keys: Keys,
    mask: Bool[Array, " S"],
    *,
    score: str | Callable,
    window: str | Callable = "full",
    normalizer: str | Callable = "auto",
    rng: Array | None = None,
) -> tuple[Memory | None, Float[Array, " S"]]:
    """`attend_step` without the context: the new memory and the weights."""
    parts = _ready(score, window, normalizer)
    if memory is None and parts.remembers:
        raise InputError("this mechanism needs a memory: at the first step, what `begin` returns")
    step = memory and memory.step
    available = {"query": query, "mask": mask, "step": step, "memory": memory}
    carries: dict[str, Any] = {}

    def run(what: str, part: Part, *inputs: Any, **more: Any) -> Any:
        if not part.has_carry:
            return part.bound(available | more)(*inputs)
        result, carries[what] = part.bound(available | more | {"carry": memory.carries[what]})(
            *inputs
        )
        return result

    near = run("window", parts.window, query, mask)
    if not (isinstance(near, tuple) and len(near) == 2):
        raise InputError(
            f"the window {name_of(parts.window.function)} must return two arrays, the support [S] "
            "and a gain [S]"
        )
    support, gain = near
    if support.shape != mask.shape or support.dtype != bool:
        raise InputError(
            f"the support of the window {name_of(parts.window.function)} must be bool "
            f"[{mask.size}], like the mask, got {support.dtype} {list(support.shape)}"
        )
    scores = run("score", parts.score, query, keys)
    wanted = mask.shape if parts.normalizer.scores == 1 else (parts.normalizer.scores, *mask.shape)
    if _shape(scores) != list(wanted):
        raise InputError(
            f"the score {name_of(parts.score.function)} gives shape {_shape(scores)}, "
            f"but the normalizer {name_of(parts.normalizer.function)} takes {list(wanted)}"
        )
    # A position is reachable if none of its scores (mocha has two) is -inf. NaN scores are kept, so
    # that the weights become NaN too.
    reachable = (scores != -jnp.inf).reshape(-1, mask.size).all(axis=0)
    # Weights are in float32 at least, whatever the precision of products.
    scores = widen(jnp.where(reachable, scores, 0))
    weights = run("normalizer", parts.normalizer, scores, support & reachable, rng=rng)
    if _shape(weights) != [mask.size]:
        raise InputError(
            f"the normalizer {name_of(parts.normalizer.function)} gives shape {_shape(weights)} "
            f"for the weights of {mask.size} positions"
        )
    weights = gain * weights
    if memory is not None:
        wide = weights.astype(memory.weights.dtype)
        memory = Memory(memory.step + 1, wide, memory.total + wide, carries)
    return memory, weights


def _shape(result: Any) -> list[int] | None:
    """The shape of what a part has returned; None if it is no array, as without a `return`."""
    return list(result.shape) if hasattr(result, "shape") else None


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
      InputError: a name is unknown or names a part with parameters, a parameter is not bound, or
        the parts cannot be combined.
    """
    parts = _ready(score, window, normalizer)
    if not parts.remembers:
        return None
    carries = {
        what: part.start(mask)
        for what, part in zip(parts._fields, parts, strict=True)
        if part.has_carry
    }
    nothing = jnp.zeros_like(mask, float)  # like the mask, also in how `shard_map` splits it
    return Memory(jnp.zeros((), jnp.int32), nothing, nothing, carries)
