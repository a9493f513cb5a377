"""The steps of a mechanism whose names are resolved and whose parameters are bound.

The functions of `context` first do that, and check their arguments.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention.catalogue import Mechanism
from attn_jax.attention.parts import Memory, Part, name_of
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError

Keys = PyTree[Float[Array, "S ..."]]


def begin(parts: Mechanism, mask: Bool[Array, " S"]) -> Memory | None:
    """The memory before the first query; None if the mechanism needs none."""
    if not parts.remembers:
        return None
    carries = {
        what: part.start(mask)
        for what, part in zip(parts._fields, parts, strict=True)
        if part.has_carry
    }
    nothing = jnp.zeros_like(mask, float)  # like the mask, also in how `shard_map` splits it
    return Memory(jnp.zeros((), jnp.int32), nothing, nothing, carries)


def weigh(
    parts: Mechanism,
    memory: Memory | None,
    query: Float[Array, " Q"],
    keys: Keys,
    mask: Bool[Array, " S"],
    rng: Array | None = None,
    scores: Array | None = None,
) -> tuple[Memory | None, Float[Array, " S"]]:
    """One step without its context: the new memory and the weights.

    Args:
      parts: the mechanism.
      memory: what the previous step returned; at the first step, what `begin` returned.
      query: decoder state.
      keys: what the score compares the query with.
      mask: True where the query may attend.
      rng: random key for normalizers with noise; None: no noise.
      scores: of the query [S], if they are already known.

    Raises:
      InputError: the mechanism needs a memory and there is none, or a part returned a wrong shape
        or dtype.
    """
    if memory is None and parts.remembers:
        raise InputError("this mechanism needs a memory: at the first step, what `begin` returns")
    step = memory and memory.step
    available = {"query": query, "mask": mask, "step": step, "memory": memory}
    carries: dict[str, Any] = {}

    def run(what: str, part: Part, *inputs: Any, **more: Any) -> Any:
        carry = {"carry": memory.carries[what]} if part.has_carry else {}
        function = part.bound(available | more | carry)
        try:
            result = function(*inputs)
        except (TypeError, ValueError) as error:
            shapes = ", ".join(str(jax.tree.map(jnp.shape, array)) for array in inputs)
            error.add_note(f"in the {what} {name_of(part.function)}, called with arrays {shapes}")
            raise
        if part.has_carry:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise InputError(
                    f"the {what} {name_of(part.function)} has a carry: it must return its result "
                    "and the next carry"
                )
            result, carries[what] = result
        return result

    support, gain = _near(parts.window, run("window", parts.window, query, mask), mask)
    if scores is None:
        scores = run("score", parts.score, query, keys)
    _check_scores(parts, scores, mask)
    # A position is reachable if none of its scores (mocha has two) is -inf. NaN scores are kept, so
    # that the weights become NaN too.
    reachable = (scores != -jnp.inf).reshape(-1, mask.size).all(axis=0)
    # Weights are in float32 at least, whatever the precision of products.
    scores = widen(jnp.where(reachable, scores, 0))
    weights = run("normalizer", parts.normalizer, scores, support & reachable, rng=rng)
    if _shape(weights) != [mask.size]:
        raise InputError(
            f"the normalizer {name_of(parts.normalizer.function)} gives {_kind(weights)} "
            f"for the weights of {mask.size} positions"
        )
    if not jnp.issubdtype(weights.dtype, jnp.floating):
        raise InputError(
            f"the normalizer {name_of(parts.normalizer.function)} gives weights of "
            f"{weights.dtype}, not floating-point numbers"
        )
    weights = gain * weights
    if memory is not None:
        wide = weights.astype(memory.weights.dtype)
        memory = Memory(memory.step + 1, wide, memory.total + wide, carries)
    return memory, weights


def weigh_all(
    parts: Mechanism,
    queries: Float[Array, "T Q"],
    keys: Keys,
    mask: Bool[Array, " S"],
    rng: Array | None = None,
) -> Float[Array, "T S"]:
    """The weights of a sequence of queries, computed in parallel where possible.

    A mechanism that looks back processes the queries one after another. A score with hidden units
    is computed for one query at a time, since those of all queries would take T S A numbers.
    """
    memory = begin(parts, mask)
    rngs = None if rng is None else jax.random.split(rng, len(queries))
    if parts.looks_back:

        def following(memory: Memory, inputs: tuple) -> tuple[Memory, Array]:
            query, rng = inputs
            return weigh(parts, memory, query, keys, mask, rng)

        return jax.lax.scan(following, memory, (queries, rngs))[1]

    def alone(nth: Array, query: Array, rng: Array | None, scores: Array | None) -> Array:
        at_step = memory and memory._replace(step=nth)
        return weigh(parts, at_step, query, keys, mask, rng, scores)[1]

    scores = None
    if parts.score.factored is not None:
        project, meet = parts.score.factored
        scores = jax.lax.map(lambda projected: meet(projected, keys), jax.vmap(project)(queries))
    return jax.vmap(alone)(jnp.arange(len(queries)), queries, rngs, scores)


def _near(
    window: Part, returned: Any, mask: Bool[Array, " S"]
) -> tuple[Bool[Array, " S"], Float[Array, " S"]]:
    """What a window has returned, as the support and the gain of each position."""
    name = name_of(window.function)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise InputError(
            f"the window {name} must return two arrays, the support [S] and a gain [S]"
        )
    support, gain = returned
    if support.shape != mask.shape or support.dtype != bool:
        raise InputError(
            f"the support of the window {name} must be bool [{mask.size}], like the mask, got "
            f"{support.dtype} {list(support.shape)}"
        )
    if _shape(gain) != [mask.size]:
        raise InputError(
            f"the window {name} gives {_kind(gain)} for the gain of {mask.size} positions"
        )
    return support, gain


def _check_scores(parts: Mechanism, scores: Any, mask: Bool[Array, " S"]) -> None:
    count = parts.normalizer.traits.score_count
    wanted = [mask.size] if count == 1 else [count, mask.size]
    if _shape(scores) != wanted:
        raise InputError(
            f"the score {name_of(parts.score.function)} gives {_kind(scores)}, "
            f"but the normalizer {name_of(parts.normalizer.function)} takes {wanted}"
        )


def _shape(result: Any) -> list[int] | None:
    """The shape of what a part has returned; None if it is no array, as without a `return`."""
    return list(result.shape) if hasattr(result, "shape") else None


def _kind(result: Any) -> str:
    """What a part has returned, for an error message."""
    shape = _shape(result)
    if shape is not None:
        return f"shape {shape}"
    return "None (without a return)" if result is None else f"a {type(result).__name__}"
