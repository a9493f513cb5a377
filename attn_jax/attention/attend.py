"""Attention as functions: score, restrict to a window, normalise, sum, gate.

All take arrays of one sentence, or with the same leading batch axes before them. A mechanism is a
`Mechanism`, or a score alone, with its usual normalizer; its parameters are what its own `init`
returned. A plain function `(query, keys) -> [S]` is a score too, with {} for its parameters.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from attn_jax.attention import steps
from attn_jax.attention.arguments import annotations_and_mask, fitting, like_annotations, whole
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.mixing import Apart
from attn_jax.attention.past import ALIKE
from attn_jax.attention.protocol import Score
from attn_jax.attention.steps import Attended, Memory, Now
from attn_jax.attention.values import Annotations
from attn_jax.errors import InputError, reason


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence as queries attend to it, computed once."""

    keys: PyTree  # what the score compares queries with
    values: Float[Array, "*B S C"]  # what is summed
    mask: Bool[Array, "*B S"]  # True at real positions
    sizes: tuple[int, ...] = dataclasses.field(metadata={"static": True})  # D, E or 0, C


def attend(
    mechanism: Mechanism | Score | Callable,
    p: PyTree,
    query: Float[Array, "*B Q"],
    annotations: Float[Array, "*B S D"],
    mask: Bool[Array, "*B S"] | None = None,
    *,
    values: Float[Array, "*B S C"] | None = None,
    embeddings: Float[Array, "*B S E"] | None = None,
    rng: Array | None = None,
    train_step: int | Array = 0,
) -> tuple[Float[Array, "*B C"], Float[Array, "*B S"]]:
    """Attends from one query.

    Every call is the first step of a sentence: where a mechanism depends on previous steps or on
    the number of the step, use `attend_all`, or `begin` and `attend_step`.

    Args:
      mechanism: a value such as `Additive(units=64)`, `Mechanism(Dot(), LocalM())` or a function.
      p: parameters, as `mechanism.init(rng, Q, D)` returned them.
      query: decoder state.
      annotations: what queries are compared with; finite, also where the mask is False.
      mask: True where the query may attend; None: everywhere. Windows and scores of positions count
        masked positions too, and `forward` does not cross them.
      values: what is summed; by default, what the mechanism makes, usually the annotations.
      embeddings: word vectors, for mechanisms whose values are made of these.
      rng: a random key for what a mechanism does in training; None: what it does in use.
      train_step: the number of training steps done, for mechanisms that change with it.

    Returns:
      The context, in the dtype of the values, and the weights, in float32 at least. The weights sum
      to 1 with most normalizers; all are 0 if the mask is False everywhere. They are those before
      dropout.

    Raises:
      InputError: arrays have wrong shapes or dtypes, or parameters do not fit them.
    """
    sentence, memory = begin(
        mechanism,
        p,
        annotations,
        mask,
        values=values,
        embeddings=embeddings,
        train_step=train_step,
    )
    _, contexts, weights = attend_step(mechanism, p, sentence, memory, query, rng=rng)
    return contexts, weights


def attend_all(
    mechanism: Mechanism | Score | Callable,
    p: PyTree,
    queries: Float[Array, "*B T Q"],
    annotations: Float[Array, "*B S D"],
    mask: Bool[Array, "*B S"] | None = None,
    *,
    values: Float[Array, "*B S C"] | None = None,
    embeddings: Float[Array, "*B S E"] | None = None,
    rng: Array | None = None,
    train_step: int | Array = 0,
) -> tuple[Float[Array, "*B T C"], Float[Array, "*B T S"]]:
    """Attends from each of a sequence of queries. To be used under `jax.jit`.

    Queries are processed in parallel where possible. A mechanism that looks back processes them one
    after another. A score with hidden units is computed for some queries at a time, on a CPU for
    one, since the units of all queries would take T S A numbers.

    The arguments are those of `attend`, and so are the errors. Returns the contexts and the weights
    of all queries.
    """
    sentence, memory = begin(
        mechanism,
        p,
        annotations,
        mask,
        values=values,
        embeddings=embeddings,
        train_step=train_step,
    )
    m, p, queries = fitting(mechanism, p, queries, "T Q", sentence.sizes, sentence.mask)

    def one(sentence: Sentence, memory: Memory, queries: Array, rng: Array | None) -> tuple:
        attended, of_head, now = _one_head(m, p, sentence, memory, rng, len(queries))
        made = steps.make_queries(m, of_head, queries[None, None, None])
        weights, _ = steps.weigh_all(m, Apart(), of_head, attended, made, now)
        contexts, weights = steps.add_up(m, of_head, weights, attended.values, now.rng)
        return steps.gate(m, of_head, queries[None], contexts)[0, :, 0, 0], weights[0, 0, 0]

    batch = sentence.mask.shape[:-1]
    return over_axes(one, len(batch))(sentence, memory, queries, by_place(rng, batch))


def begin(
    mechanism: Mechanism | Score | Callable,
    p: PyTree,
    annotations: Float[Array, "*B S D"],
    mask: Bool[Array, "*B S"] | None = None,
    *,
    values: Float[Array, "*B S C"] | None = None,
    embeddings: Float[Array, "*B S E"] | None = None,
    train_step: int | Array = 0,
) -> tuple[Sentence, Memory]:
    """A sentence as `attend_step` takes it, and the memory before the first query.

    The arguments are those of `attend`, and so are the errors.
    """
    m, p = whole(mechanism, p)
    annotations, mask = annotations_and_mask(annotations, mask)
    values = like_annotations("values", values, mask)
    embeddings = like_annotations("embeddings", embeddings, mask)
    if values is not None and type(m.values) is not Annotations:
        raise InputError(
            f"the mechanism makes the values {m.values.word} itself: leave out `values`"
        )
    D, done = annotations.shape[-1], jnp.asarray(train_step, float)
    E = 0 if embeddings is None else embeddings.shape[-1]

    def one(annotations: Array, mask: Array, values: Any, embeddings: Any) -> tuple:
        try:
            compared = m.values.compared(p["values"], annotations)
            if values is None:
                values = m.values.values(p["values"], annotations, embeddings, mask)
            keys = m.score.keys(p["score"], compared)
            size = values.shape[-1]
            of_head = jax.tree.map(lambda leaf: leaf[None, None], p)
            memory = steps.begin(m, of_head, mask[None], (1, 1), size, done)
            return Sentence(keys, values, mask, (D, E, size)), _at(memory, (0, 0, 0))
        except jax.errors.JAXTypeError:  # of what the part does, not of its parameters
            raise
        except (TypeError, KeyError) as error:
            raise InputError(
                f"the parameters of {m.score.word} do not fit annotations of {D} features: "
                f"{reason(error)}"
            ) from error

    return over_axes(one, mask.ndim - 1)(annotations, mask, values, embeddings)


def attend_step(
    mechanism: Mechanism | Score | Callable,
    p: PyTree,
    sentence: Sentence,
    memory: Memory,
    query: Float[Array, "*B Q"],
    *,
    rng: Array | None = None,
) -> tuple[Memory, Float[Array, "*B C"], Float[Array, "*B S"]]:
    """Attends from the next query of a sequence.

    Args:
      mechanism: as in `attend`.
      p: its parameters.
      sentence: what `begin` returned.
      memory: what the previous step returned; at the first step, what `begin` returned.
      query: decoder state.
      rng: as in `attend`.

    Returns:
      The new memory, the context and the weights.

    Raises:
      InputError: as in `attend`.
    """
    m, p, query = fitting(mechanism, p, query, "Q", sentence.sizes, sentence.mask)

    def one(sentence: Sentence, memory: Memory, query: Array, rng: Array | None) -> tuple:
        attended, of_head, now = _one_head(m, p, sentence, memory, rng)
        made = steps.make_queries(m, of_head, query[None, None, None])
        memory, weights = steps.weigh(m, Apart(), of_head, attended, made, now)
        contexts, weights = steps.add_up(m, of_head, weights, attended.values, now.rng)
        memory = _at(steps.remember(memory, weights, contexts), (0, 0, 0))
        return memory, steps.gate(m, of_head, query[None], contexts)[0, 0, 0], weights[0, 0, 0]

    batch = sentence.mask.shape[:-1]
    return over_axes(one, len(batch))(sentence, memory, query, by_place(rng, batch))


def _one_head(
    m: Mechanism, p: PyTree, sentence: Sentence, memory: Memory, rng: Array | None, *count: int
) -> tuple[Attended, PyTree, Now]:
    """A sentence as a batch of one sentence with one head, as steps take it."""
    of_head, keys = (
        jax.tree.map(lambda leaf: leaf[None, None], tree) for tree in (p, sentence.keys)
    )
    if m.makes_keys:
        keys = jax.tree.map(lambda leaf: leaf[None], keys)
    if rng is not None:
        rng = jax.random.split(rng, count)[None, None, None] if count else rng[None, None, None]
    attended = Attended(keys, sentence.values[None, None])
    return attended, of_head, Now(_at(memory, (None, None, None)), sentence.mask[None], rng)


def _at(memory: Memory, index: tuple) -> Memory:
    """What a memory has of each head, indexed."""
    alike = {name: getattr(memory, name) for name in ALIKE}
    nothing: dict[str, Any] = dict.fromkeys(ALIKE)
    of_heads = memory._replace(**nothing)
    return jax.tree.map(lambda leaf: leaf[index], of_heads)._replace(**alike)


def over_axes(function: Callable, count: int) -> Callable:
    """Vectorises a function over the first axes of all its arguments."""
    for _ in range(count):
        function = jax.vmap(function)
    return function


def by_place(rng: Array | None, batch: tuple[int, ...]) -> Array | None:
    """A key for each place in a batch."""
    if rng is not None and not jnp.issubdtype(rng.dtype, jax.dtypes.prng_key):
        rng = jax.random.wrap_key_data(rng)
    return rng if rng is None or not batch else jax.random.split(rng, batch)
