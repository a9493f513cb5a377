"""A step of a mechanism, for all heads of a batch of sentences; `attend` has one head.

make_queries -> weigh: score, mix, window, normalize, mix, amplify -> add_up -> remember, gate

The method of a part is of one head of one sentence. Each is vectorised by itself, so that heads can
be mixed between two of them.

Heads are arranged as [K, G]: K heads of keys and values, each shared by G heads of queries.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.past import CARRIED, Past, apart
from attn_jax.attention.protocol import Mixing, Weigher, widen
from attn_jax.errors import InputError
from attn_jax.kernels.memory import Held, recomputed
from attn_jax.kernels.mixture import plain_mixture

# Of one head of one sentence, at least those of one query: a batch has B N times as many.
UNITS = Held(cpu=0, other=2**21)


class Own(NamedTuple):
    """The states of the parts of a mechanism; () for a part without one."""

    score: PyTree
    window: PyTree
    normalizer: PyTree


class Memory(NamedTuple):
    """What a mechanism carries from step to step; None what none of its parts reads.

    That of `attend`, of one head, has no axes K and G, and those of the batch instead of B.
    """

    step: Int[Array, ""] | None  # the number of earlier steps
    weights: Float[Array, "B K G S"] | None  # of the last step; initially 0
    total: Float[Array, "B K G S"] | None  # the sum of the weights of all earlier steps
    context: Float[Array, "B K G C"] | None  # of the last step, before the gate; initially 0
    train_step: Float[Array, ""] | None  # the number of training steps done, always the same
    layer: Int[Array, ""] | None  # of the decoder, always the same
    head: Int[Array, "B K G"] | None  # which it is, always the same
    heads: Int[Array, ""] | None  # how many there are, always the same
    own: Own  # leaves [B, K, G, ...]


class Queries(NamedTuple):
    """Decoder states as the score and the window see them, leaves [B, K, G, *T, ...]."""

    score: PyTree
    window: PyTree


class Attended(NamedTuple):
    """A batch of sentences as queries attend to it, computed once."""

    keys: PyTree[Float[Array, "B K ..."]]  # [B, K, G, ...] if the score makes keys
    values: Float[Array, "B K S C"]


class Weighed(NamedTuple):
    """Weights, and the probabilities that reading stops at a position, from which they spread."""

    weights: Float[Array, "*any S"]
    stops: Float[Array, "*any S"]


class Now(NamedTuple):
    """What the parts of a mechanism may see at a step, besides their inputs."""

    memory: Memory
    mask: Bool[Array, "B S"]
    rng: Key[Array, "B K G"] | None


def begin(
    m: Mechanism,
    p: PyTree,
    mask: Bool[Array, "B S"],
    shape: tuple[int, int],
    size: int,
    train_step: Float[Array, ""],
    layer: int = 0,
) -> Memory:
    """The memory before the first query.

    Args:
      m: the mechanism.
      p: its parameters, leaves [K, G, ...].
      mask: of the sentences.
      shape: K and G.
      size: features of a context, C.
      train_step: the number of training steps done.
      layer: of the decoder.
    """
    K, G = shape
    of_positions = (len(mask), *shape, mask.shape[1])
    # Like the mask, also in how it is sharded.
    nothing = jnp.broadcast_to(jnp.zeros_like(mask, float)[:, None, None], of_positions)
    first = {
        "step": jnp.zeros((), jnp.int32),
        "weights": nothing,
        "total": nothing,
        "context": jnp.zeros((len(mask), *shape, size)),
        "train_step": train_step,
        "layer": jnp.asarray(layer),
        "head": nothing[..., 0].astype(jnp.int32) + jnp.arange(K * G).reshape(K, G),
        "heads": jnp.asarray(K * G),
    }

    def of_head(p: PyTree, mask: Bool[Array, " S"]) -> Own:
        return Own(*(part.start(p[kind], mask) for kind, part in zip(Own._fields, m, strict=True)))

    over = jax.vmap(jax.vmap(of_head, (0, None), axis_size=G), (0, None), axis_size=K)
    own = jax.vmap(over, (None, 0))({kind: p[kind] for kind in Own._fields}, mask)
    return Memory(**{name: first[name] if name in m.carried else None for name in CARRIED}, own=own)


def make_queries(m: Mechanism, p: PyTree, states: Float[Array, "B K G *T Q"]) -> Queries:
    """What the score and the window make of the states that each head sees."""

    def of_heads(part: Weigher, p: PyTree) -> PyTree:
        over: Callable = part.query
        for _ in states.shape[3:-1]:
            over = jax.vmap(over, (None, 0))
        return jax.vmap(jax.vmap(jax.vmap(over)), (None, 0))(p, states)

    return Queries(of_heads(m.score, p["score"]), of_heads(m.window, p["window"]))


def weigh(
    m: Mechanism, mixing: Mixing, p: PyTree, attended: Attended, queries: Queries, now: Now
) -> tuple[Memory, Float[Array, "B K G *C S"]]:
    """The weights of one query of each head, and the memory with the new states of the parts.

    If a score gives one number for each feature of a value, there are as many weights.

    Args:
      m: the mechanism.
      mixing: what its heads tell one another.
      p: parameters by part: leaves [K, G, ...], but for `mixing` those of all heads together.
      attended: the sentences.
      queries: one for each head of each sentence.
      now: what the parts may see besides.
    """
    score, window, normalizer = m.score, m.window, m.normalizer
    positions, features = now.mask.shape[1], attended.values.shape[3]

    # How well each position matches: [B, K, G, S]; of a pair [B, K, G, 2, S]; [B, K, G, C, S] of a
    # score that gives a number for each feature.
    axes = 0, 0 if m.makes_keys else None
    given = p["score"], queries.score, attended.keys
    of_score = _advanced(m, "score", now, axes, *given)
    # Hidden units are recomputed for the derivative: those of all queries would take T S A numbers,
    # and storing them more time.
    scored = recomputed(score.score) if m.has_hidden_units else score.score
    scores = _each(scored, of_score, axes)(*given, of_score)
    if score.scores is None:
        wanted, takes = [features, positions], f", but values have {features} features"
        weights_of = jax.vmap(normalizer.weights, (None, 0, None, None))
    else:
        wanted = [positions] if normalizer.scores == 1 else [normalizer.scores, positions]
        takes = f", but the normalizer {normalizer.word} takes {wanted}"
        weights_of = normalizer.weights
    _check(scores, wanted, f"the score {score.word} gives", takes)
    if mixing.overrides("scores"):
        scores = _of_all_heads(partial(mix_scores, mixing, p["mixing"]), scores)

    # The window. A position is reachable if none of its scores is -∞. NaN scores are kept, so that
    # the weights become NaN too.
    in_window = p["window"], queries.window
    of_window = _advanced(m, "window", now, (0,), *in_window)
    if window.overrides("bias"):
        bias = _each(window.bias, of_window, (0,))(*in_window, of_window)
        _check_positions(bias, positions, f"the window {window.word}", "bias")
        scores = scores + _like(scores, bias)
    reachable = (scores != -jnp.inf).all(axis=tuple(range(3, scores.ndim - 1)))

    # The weights, in float32 at least, whatever the precision of products.
    finite = widen(jnp.where(_like(scores, reachable), scores, 0))
    given = p["normalizer"], finite, now.mask[:, None, None] & reachable
    of_normalizer = _advanced(m, "normalizer", now, (0, 0), *given)
    weights = _each(weights_of, of_normalizer, (0, 0))(*given, of_normalizer)
    name, axes = f"the normalizer {normalizer.word}", 3 + (score.scores is None)
    _check_positions(weights, positions, name, "weights", axes)
    if mixing.overrides("weights"):
        weights = _of_all_heads(partial(mix_weights, mixing, p["mixing"]), weights, now.mask)
    if window.overrides("gain"):
        gain = _each(window.gain, of_window, (0,))(*in_window, of_window)
        _check_positions(gain, positions, f"the window {window.word}", "gain")
        weights = weights * _like(weights, gain)

    seen = of_score, of_window, of_normalizer
    own = (past.own if part.is_stateful else () for part, past in zip(m, seen, strict=True))
    return now.memory._replace(own=Own(*own)), weights


def weigh_all(
    m: Mechanism, mixing: Mixing, p: PyTree, attended: Attended, queries: Queries, now: Now
) -> tuple[Float[Array, "B K G T *C S"], Float[Array, "B K G T S"] | None]:
    """The weights of T queries, one after another where one depends on the previous ones.

    Otherwise all at once. Those of scores with hidden units are computed for some queries at a
    time, since the units of all would take T S A numbers; on a CPU for one, whose units its caches
    hold.

    Where a normalizer spreads its weights from where reading stops, these are the second result.

    Args:
      m, mixing, p: as for `weigh`.
      attended: the sentences.
      queries: of all steps.
      now: at the first step, with random keys [B, K, G, T] of all.
    """
    first, mask, rngs = now
    of_step = partial(weigh, m, mixing, p, attended)
    by_step = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 3, 0), (queries, rngs))

    def following(memory: Memory, inputs: tuple) -> tuple[Memory, tuple]:
        queries, rng = inputs
        memory, weights = of_step(queries, Now(memory, mask, rng))
        contexts, shown = add_up(m, p, weights, attended.values, rng)
        return remember(memory, shown, contexts), (weights, stops(m, memory))

    if m.looks_back:
        _, made = jax.lax.scan(following, first, by_step)
        return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 3), made)
    count = jax.tree.leaves(queries)[0].shape[3]
    numbers = None if first.step is None else first.step + jnp.arange(count)

    if not m.has_hidden_units:
        of_memory = Memory._make(0 if name == "step" else None for name in Memory._fields)
        over = jax.vmap(of_step, (3, Now._make((of_memory, None, 3))), (0, 3))
        return over(queries, Now(first._replace(step=numbers), mask, rngs))[1], None

    def one(inputs: tuple) -> Float[Array, "B K G *C S"]:
        (queries, rng), number = inputs
        return of_step(queries, Now(first._replace(step=number), mask, rng))[1]

    batch = jax.tree.leaves(queries)[0].shape[: 3 if m.makes_keys else 2]
    # A head of one sentence has as many units for a query as numbers in its keys.
    units = sum(leaf.size for leaf in jax.tree.leaves(attended.keys)) // math.prod(batch)
    together = UNITS.here() // max(1, units)
    together = together if together > 1 else None
    weights = jax.lax.map(one, (by_step, numbers), batch_size=together)
    return jnp.moveaxis(weights, 0, 3), None


def stops(m: Mechanism, memory: Memory) -> Float[Array, "B K G S"] | None:
    """Where reading has stopped at a step, if the weights are spread from there."""
    if not m.normalizer.is_stateful:
        return None
    return jax.vmap(jax.vmap(jax.vmap(m.normalizer.stops)))(memory.own.normalizer)


def add_up(
    m: Mechanism,
    p: PyTree,
    weights: Float[Array, "B K G *TC S"],
    values: Float[Array, "B K S C"],
    rng: Key[Array, "B K G *T"] | None,
    mixture: Callable = plain_mixture,
) -> tuple[Float[Array, "B *T K G C"], Float[Array, "B K G *T S"]]:
    """The contexts, and the weights of positions: the mean of those of features, if these have own.

    A context is Σ_j α_j h_j, in training of weights of which a normalizer may leave some out.

    Args:
      m: the mechanism.
      p: parameters by part, leaves [K, G, ...].
      weights: of each head.
      values: of the sentences.
      rng: random keys in training, None in use.
      mixture: the form of the sum.
    """
    shown = weights if m.score.scores else weights.mean(axis=-2)
    if rng is not None and m.normalizer.overrides("summed"):
        over = m.normalizer.summed
        for _ in rng.shape:
            over = jax.vmap(over)
        weights = over(weights, apart(rng, "summed"))
        name, axes = f"the normalizer {m.normalizer.word}", rng.ndim + (m.score.scores is None)
        _check_positions(weights, values.shape[2], name, "sum", axes)
    if m.gate.overrides("context"):
        return _contexts(m, p, weights, values), shown
    if m.score.scores is None:
        return jnp.einsum("BKG...CS,BKSC->B...KGC", weights.astype(values.dtype), values), shown
    return mixture(weights, values), shown


def _contexts(
    m: Mechanism, p: PyTree, weights: Float[Array, "B K G *T S"], values: Float[Array, "B K S C"]
) -> Float[Array, "B *T K G C"]:
    """The contexts of a gate that makes them itself."""
    over: Callable = m.gate.context
    for _ in weights.shape[3:-1]:
        over = jax.vmap(over, (None, 0, None))
    over = jax.vmap(jax.vmap(jax.vmap(over, (0, 0, None))), (None, 0, 0))
    contexts = over(p["gate"], weights.astype(values.dtype), values)
    size = values.shape[3]
    told = f"the gate {m.gate.word} gives", f" for a context of {size} features"
    _check(contexts, [size], *told, weights.ndim - 1)
    return jnp.moveaxis(contexts, (1, 2), (-3, -2))


def remember(
    memory: Memory, weights: Float[Array, "B K G S"], contexts: Float[Array, "B K G C"]
) -> Memory:
    """The memory after a step, from its weights before dropout and its sums."""
    step, last, total, before, *_ = memory
    return memory._replace(
        step=None if step is None else step + 1,
        weights=None if last is None else weights.astype(last.dtype),
        total=None if total is None else total + weights.astype(total.dtype),
        context=None if before is None else contexts.astype(before.dtype),
    )


def gate(
    m: Mechanism, p: PyTree, states: Float[Array, "B *T Q"], contexts: Float[Array, "B *T K G C"]
) -> Float[Array, "B *T K G C"]:
    """The contexts that are handed on; `states` are those of the decoder."""
    over = jax.vmap(jax.vmap(m.gate.gate, (0, None, 0)), (0, None, 0))
    for _ in states.shape[:-1]:
        over = jax.vmap(over, (None, 0, 0))
    gated = over(p["gate"], states, contexts)
    *axes, size = contexts.shape
    told = f" for a context of {size} features"
    _check(gated, [size], f"the gate {m.gate.word} gives", told, len(axes))
    return gated


def mix_scores(mixing: Mixing, p: PyTree, scores: Float[Array, "N S"]) -> Float[Array, "N S"]:
    """The scores of all heads, mixed. A position that a head excludes stays so: 0 · ∞ is NaN."""
    excluded = scores == -jnp.inf
    mixed = mixing.scores(p, widen(jnp.where(excluded, 0, scores)))
    _check_mixed(mixing, mixed, scores, "scores")
    return jnp.where(excluded, -jnp.inf, mixed)


def mix_weights(
    mixing: Mixing, p: PyTree, weights: Float[Array, "N S"], mask: Bool[Array, " S"]
) -> Float[Array, "N S"]:
    """The weights of all heads, mixed; 0 where there is padding."""
    mixed = mixing.weights(p, weights)
    _check_mixed(mixing, mixed, weights, "weights")
    return jnp.where(mask, mixed, 0)


def _check_mixed(mixing: Mixing, mixed: Any, given: Array, what: str) -> None:
    shape = list(given.shape)
    _check(mixed, shape, f"the mixing {mixing.word} gives", f" for {what} of shape {shape}", 0)


def _of_all_heads(
    mix: Callable, numbers: Float[Array, "B K G *C S"], *of_sentence: Array
) -> Float[Array, "B K G *C S"]:
    """A function of [N, S], the numbers of all heads, for each sentence and score of a pair."""
    heads = numbers.reshape(len(numbers), -1, *numbers.shape[3:])
    for _ in heads.shape[2:-1]:
        mix = jax.vmap(mix, (1, *(None for _ in of_sentence)), 1)
    return jax.vmap(mix)(heads, *of_sentence).reshape(numbers.shape)


def _each(method: Callable, past: Past, axes: tuple) -> Callable:
    """A method of a part for each head of each sentence: a function of the same arguments.

    Args:
      method: of `p`, inputs and `past`.
      past: what the part sees of all heads.
      axes: 0 for each input; None for keys that heads share.
    """
    over = jax.vmap(method, (0, *axes, past.axes(None)))
    over = jax.vmap(over, (0, *(0 for _ in axes), past.axes(None)))
    return jax.vmap(over, (None, *(0 for _ in axes), past.axes(0)))


def _advanced(m: Mechanism, kind: str, now: Now, axes: tuple, *given: PyTree) -> Past:
    """What a part sees at this step: no more than its class says that it reads.

    It has random keys of its own, and its own state has moved on.
    """
    part, rng = getattr(m, kind), now.rng
    known = {name: getattr(now.memory, name) for name in CARRIED if name in part.carried}
    if rng is not None and kind != "normalizer":  # one of them has the keys themselves
        rng = apart(rng, kind)
    if not part.is_stateful:
        return Past(part.word, mask=now.mask, rng=rng, **known)
    past = Past(part.word, mask=now.mask, rng=rng, own=getattr(now.memory.own, kind), **known)
    own = _each(part.advance, past, axes)(*given, past)
    before, after = _described(past.own), _described(own)
    if after != before:  # a scan could not carry it
        raise InputError(f"`advance` of {part.word} makes a state {before} into one {after}")
    return past.moved(own)


def _described(state: PyTree) -> PyTree:
    """The dtype and shape of each array of the states of all heads, in words."""
    return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[3:])}", state)


def _like(scores: Shaped[Array, "B K G *C S"], array: Shaped[Array, "B K G S"]) -> Array:
    """Numbers of positions, the same for both scores of a pair, or for all features."""
    return array if scores.ndim == array.ndim else array[:, :, :, None]


def _check_positions(returned: Any, positions: int, whose: str, what: str, axes: int = 3) -> None:
    """Raises InputError if a part has returned something else than a number for each position."""
    _check(
        returned, [positions], f"{whose} gives", f" for the {what} of {positions} positions", axes
    )
    if not jnp.issubdtype(returned.dtype, jnp.floating):
        raise InputError(f"{whose} gives {what} of {returned.dtype}, not floating-point numbers")


def _check(returned: Any, shape: list[int], before: str, after: str, axes: int = 3) -> None:
    """Raises InputError if what a part has returned has not the shape that it should have.

    Args:
      returned: an array; something else of a part without a `return`.
      shape: that it should have.
      before: of the sentence, before what it is.
      after: of the sentence.
      axes: the number of first axes that are those of sentences and heads, unknown to a part.
    """
    found = list(returned.shape[axes:]) if hasattr(returned, "shape") else None
    if found == shape:
        return
    other = "None (without a return)" if returned is None else f"a {type(returned).__name__}"
    raise InputError(f"{before} {other if found is None else f'shape {found}'}{after}")
