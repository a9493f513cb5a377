"""A step of a mechanism in stages, each for one sentence and one head.

query -> score -> (mix scores) -> weigh -> (mix weights) -> amplify -> drop -> remember -> gate

What mixes heads is of one sentence and all heads. `models.attention` vectorises each stage by
itself over heads and sentences; `attend`, of one head, runs the others one after another.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.past import CARRIED, Past, apart
from attn_jax.attention.protocol import Mixing, Weigher
from attn_jax.attention.widening import widen
from attn_jax.errors import InputError
from attn_jax.kernels.held import Held
from attn_jax.kernels.recomputation import recomputed

# Of one head of one sentence, at least those of one query: a batch has B N times as many.
UNITS = Held(cpu=0, other=2**21)


class Own(NamedTuple):
    """The states of the parts of a mechanism; () for a part without one."""

    score: PyTree
    window: PyTree
    normalizer: PyTree


class Memory(NamedTuple):
    """What a mechanism carries from step to step; None what none of its parts reads."""

    step: Int[Array, ""] | None  # the number of earlier steps
    weights: Float[Array, " S"] | None  # of the last step; initially 0
    total: Float[Array, " S"] | None  # the sum of the weights of all earlier steps
    context: Float[Array, " C"] | None  # of the last step, before the gate; initially 0
    train_step: Float[Array, ""] | None  # the number of training steps done, always the same
    own: Own


class Queries(NamedTuple):
    """A decoder state as the score and the window see it."""

    score: PyTree
    window: PyTree


class Now(NamedTuple):
    """What the parts of a mechanism may see at a step, besides their inputs."""

    memory: Memory
    mask: Bool[Array, " S"]
    rng: Array | None


# `weigh` and `amplify` of all queries: p, queries, scores or weights, now.
OVER_STEPS = None, 0, 0, Now._make((0, None, 0))  # memory, mask, rng


def begin(
    m: Mechanism, p: PyTree, mask: Bool[Array, " S"], size: int, train_step: Float[Array, ""]
) -> Memory:
    """The memory before the first query; `size` is that of a context, C."""
    nothing = jnp.zeros_like(mask, float)  # like the mask, also in how it is sharded
    first = {
        "step": jnp.zeros((), jnp.int32),
        "weights": nothing,
        "total": nothing,
        "context": jnp.zeros(size),
        "train_step": train_step,
    }
    own = Own(
        m.score.start(p["score"], mask),
        m.window.start(p["window"], mask),
        m.normalizer.start(p["normalizer"], mask),
    )
    return Memory(**{name: first[name] if name in m.carried else None for name in CARRIED}, own=own)


def query(m: Mechanism, p: PyTree, state: Float[Array, " Q"]) -> Queries:
    """What the score and the window make of a decoder state."""
    return Queries(m.score.query(p["score"], state), m.window.query(p["window"], state))


def score(
    m: Mechanism, p: PyTree, query: Queries, keys: PyTree, now: Now
) -> tuple[Memory, Float[Array, "*C S"]]:
    """The scores [S], or [2, S] of a pair, and the memory with the score's own new state."""
    part, inputs, memory = m.score, (p["score"], query.score, keys), now.memory
    past = _advanced(part, inputs, _past(m, "score", now))
    # Hidden units are recomputed for the derivative: those of all queries would take T S A numbers,
    # and storing them more time.
    scored = recomputed(part.score) if m.has_hidden_units else part.score
    scores = scored(*inputs, past)
    size = now.mask.size
    wanted = [size] if m.normalizer.scores == 1 else [m.normalizer.scores, size]
    if _shape(scores) != wanted:
        raise InputError(
            f"the score {part.word} gives {_kind(scores)}, but the normalizer "
            f"{m.normalizer.word} takes {wanted}"
        )
    if part.is_stateful:
        memory = memory._replace(own=memory.own._replace(score=past.own))
    return memory, scores


def weigh(
    m: Mechanism, p: PyTree, query: Queries, scores: Float[Array, "*C S"], now: Now
) -> tuple[Memory, Float[Array, " S"]]:
    """The weights before the gain of the window, and the memory with the other new states."""
    own, window, normalizer = now.memory.own, m.window, m.normalizer
    of_query = p["window"], query.window
    past = _advanced(window, of_query, _past(m, "window", now))
    if window.is_stateful:
        own = own._replace(window=past.own)
    if window.overrides("bias"):
        bias = window.bias(*of_query, past)
        scores = scores + _of_positions(bias, now.mask.size, f"the window {window.word}", "bias")
    # A position is reachable if none of its scores is -∞. NaN scores are kept, so that the weights
    # become NaN too.
    reachable = (scores != -jnp.inf).reshape(-1, now.mask.size).all(axis=0)
    # Weights are in float32 at least, whatever the precision of products.
    of_scores = p["normalizer"], widen(jnp.where(reachable, scores, 0)), now.mask & reachable
    past = _advanced(normalizer, of_scores, _past(m, "normalizer", now))
    if normalizer.is_stateful:
        own = own._replace(normalizer=past.own)
    weights = normalizer.weights(*of_scores, past)
    weights = _of_positions(weights, now.mask.size, f"the normalizer {normalizer.word}", "weights")
    return now.memory._replace(own=own), weights


def mix_scores(mixing: Mixing, p: PyTree, scores: Float[Array, "N S"]) -> Float[Array, "N S"]:
    """The scores of all heads, mixed. A position that a head excludes stays so: 0 · ∞ is NaN."""
    excluded = scores == -jnp.inf
    mixed = mixing.scores(p, widen(jnp.where(excluded, 0, scores)))
    return jnp.where(excluded, -jnp.inf, _of_heads(mixed, scores, mixing, "scores"))


def mix_weights(
    mixing: Mixing, p: PyTree, weights: Float[Array, "N S"], mask: Bool[Array, " S"]
) -> Float[Array, "N S"]:
    """The weights of all heads, mixed; 0 where there is padding."""
    mixed = mixing.weights(p, weights)
    return jnp.where(mask, _of_heads(mixed, weights, mixing, "weights"), 0)


def amplify(
    m: Mechanism, p: PyTree, query: Queries, weights: Float[Array, " S"], now: Now
) -> Float[Array, " S"]:
    """The weights multiplied by the gain of the window, if it has one."""
    if not m.window.overrides("gain"):
        return weights
    past = _past(m, "window", now)
    gain = m.window.gain(p["window"], query.window, past)
    return weights * _of_positions(gain, now.mask.size, f"the window {m.window.word}", "gain")


def drop(
    m: Mechanism, weights: Float[Array, " S"], rng: Key[Array, ""] | None
) -> Float[Array, " S"]:
    """The weights that are summed: in training, a normalizer may leave some out."""
    if rng is None or not m.normalizer.overrides("summed"):
        return weights
    summed = m.normalizer.summed(weights, apart(rng, "summed"))
    return _of_positions(summed, weights.size, f"the normalizer {m.normalizer.word}", "sum")


def remember(
    memory: Memory, weights: Float[Array, "*B S"], context: Float[Array, "*B C"]
) -> Memory:
    """The memory after a step, from its weights before dropout and its sum.

    It takes all heads and sentences at once, or one.
    """

    step, last, total, before, *_ = memory
    return memory._replace(
        step=None if step is None else step + 1,
        weights=None if last is None else weights.astype(last.dtype),
        total=None if total is None else total + weights.astype(total.dtype),
        context=None if before is None else context.astype(before.dtype),
    )


def context(weights: Float[Array, " S"], values: Float[Array, "S C"]) -> Float[Array, " C"]:
    """Σ_j α_j h_j, in the dtype of the values. Bahdanau, Cho and Bengio 2014, equation 5."""
    return weights.astype(values.dtype) @ values


def gate(
    m: Mechanism, p: PyTree, state: Float[Array, " Q"], context: Float[Array, " C"]
) -> Float[Array, " C"]:
    """The context that is handed on; `state` is that of the decoder."""
    gated = m.gate.gate(p["gate"], state, context)
    if _shape(gated) != [context.size]:
        raise InputError(
            f"the gate {m.gate.word} gives {_kind(gated)} for a context of {context.size} features"
        )
    return gated


def at_each(m: Mechanism, count: int, train_step: Float[Array, ""]) -> Memory:
    """The memories at `count` steps, [T, ...], of a mechanism that does not look back."""
    known = {"step": jnp.arange(count), "train_step": jnp.broadcast_to(train_step, count)}
    carried = {name: known[name] if name in m.carried else None for name in CARRIED}
    return Memory(**carried, own=Own((), (), ()))


def score_all(
    m: Mechanism, p: PyTree, queries: Queries, keys: PyTree, at_steps: Now
) -> Float[Array, "T *C S"]:
    """The scores of all queries, [T, ...], of a mechanism that does not look back.

    Those with hidden units are computed for some queries at a time, since the units of all would
    take T S A numbers; on a CPU for one, whose units its caches hold.
    """
    memories, mask, rngs = at_steps

    def one(inputs: tuple[Queries, Memory, Array | None]) -> Float[Array, "*C S"]:
        query, memory, rng = inputs
        return score(m, p, query, keys, Now(memory, mask, rng))[1]

    of_steps = queries, memories, rngs
    if not m.has_hidden_units:
        return jax.vmap(one)(of_steps)
    of_query = sum(leaf.size for leaf in jax.tree.leaves(keys))  # as many units as numbers in keys
    together = UNITS.here() // max(1, of_query)
    return jax.lax.map(one, of_steps, batch_size=together if together > 1 else None)


def _past(m: Mechanism, kind: str, now: Now) -> Past:
    """What a part sees: no more than its class says that it reads, and a random key of its own."""
    part: Weigher = getattr(m, kind)
    known = {name: getattr(now.memory, name) for name in CARRIED if name in part.carried}
    if part.is_stateful:
        known["own"] = getattr(now.memory.own, kind)
    past = Past(part.word, mask=now.mask, rng=now.rng, **known)
    return past if kind == "normalizer" else past.apart(kind)  # one of them has the key itself


def _advanced(part: Any, inputs: tuple, past: Past) -> Past:
    """What a part sees at this step: its own state has moved on."""
    if not part.is_stateful:
        return past
    own = part.advance(*inputs, past)
    before, after = _described(past.own), _described(own)
    if after != before:  # a scan could not carry it
        raise InputError(f"`advance` of {part.word} makes a state {before} into one {after}")
    return past.moved(own)


def _described(state: PyTree) -> PyTree:
    """The dtype and shape of each array of a state, in words."""
    return jax.tree.map(lambda leaf: f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}", state)


def _of_positions(returned: Any, size: int, whose: str, what: str) -> Array:
    """What a part has returned, after a check that it is a number for each position."""
    if _shape(returned) != [size]:
        raise InputError(f"{whose} gives {_kind(returned)} for the {what} of {size} positions")
    if not jnp.issubdtype(returned.dtype, jnp.floating):
        raise InputError(f"{whose} gives {what} of {returned.dtype}, not floating-point numbers")
    return returned


def _of_heads(returned: Any, given: Array, mixing: Mixing, what: str) -> Array:
    """What mixing has returned, after a check that it is like what it was given."""
    if _shape(returned) != _shape(given):
        raise InputError(
            f"the mixing {mixing.word} gives {_kind(returned)} for {what} of shape {_shape(given)}"
        )
    return returned


def _shape(returned: Any) -> list[int] | None:
    """The shape of what a part has returned; None if it is no array, as without a `return`."""
    return list(returned.shape) if hasattr(returned, "shape") else None


def _kind(returned: Any) -> str:
    """What a part has returned, for an error message."""
    shape = _shape(returned)
    if shape is not None:
        return f"shape {shape}"
    return "None (without a return)" if returned is None else f"a {type(returned).__name__}"
