"""Checks that all ways to compute a mechanism agree."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import PyTree

from attn_jax.attention.mechanism import KINDS, Mechanism
from attn_jax.attention.past import NotRead
from attn_jax.checks.subject import (
    LENGTH,
    TOLERANCE,
    E,
    Inputs,
    Subject,
    at_once,
    difference,
)
from attn_jax.config import Model
from attn_jax.models.attention import Attention
from attn_jax.models.protocols import Encoded, Summary

ROWS = 3
BETWEEN = "a part keeps something from one call to another, which `start` and `advance` are for"


def decoding(subject: Subject) -> str | None:
    """Training computes all steps at once where it can, decoding one after another."""
    inputs, mask = subject.inputs(), subject.masks()[0]
    for mode, rng in subject.modes.items():
        whole = subject.at_once(subject.p, inputs, mask, rng)
        steps = subject.one_by_one(subject.p, inputs, mask, rng)
        if problem := _apart(whole, steps, f"{mode}: {BETWEEN}"):
            return problem
    return None


def heads(subject: Subject) -> str | None:
    """The same in a model: a batch, and four heads of which two share keys and values."""
    attention, queries, annotations, vectors, mask = _of_a_model(subject)

    @jax.jit
    def both() -> PyTree:
        encoded = Encoded(vectors, annotations, mask, Summary(jnp.zeros((ROWS, 0)), ()))
        source = attention.project(encoded)
        whole = attention(queries, source, mask)
        memory, found = attention.begin(mask), []
        for query in jnp.moveaxis(queries, 1, 0):
            memory, *of_step = attention.step(memory, query, source, mask)
            found.append(of_step)
        contexts, weights = (jnp.stack(each, axis=-2) for each in zip(*found, strict=True))
        return whole, (contexts, weights)

    whole, steps = both()
    whole, steps = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -2, 0), (whole, steps))
    return _apart(whole, steps, "in a model with several heads")


def _of_a_model(subject: Subject) -> tuple:
    """The attention of a model, inputs [B, ...] and a mask [B, S]."""
    m, inputs = subject.mechanism, zip(*map(subject.inputs, range(ROWS)), strict=True)
    # A part may hold arrays that fit only these sizes, which heads would change.
    projection = "none"
    heads: dict[str, Any] = {}
    if fits(m, subject.Q, subject.Q):
        projection = "linear"
        heads = {"heads": 4, "key_value_heads": 2, "head_size": subject.Q}
    parts = {name: getattr(m, name) for name in KINDS}
    config = Model(embedding_size=subject.E, **parts, **heads)
    attention = Attention(config, subject.Q, subject.D, projection=projection, rngs=nnx.Rngs(0))
    ends = subject.length // (1 + np.arange(ROWS))
    mask = np.arange(subject.length) < ends[:, None]
    return attention, *map(jnp.asarray, (*map(np.stack, inputs), mask))


def _apart(whole: PyTree, steps: PyTree, where: str) -> str | None:
    """Where all steps at once differ from one after another; steps are the first axis of both."""
    of_steps = zip(*(zip(*each, strict=True) for each in (whole, steps)), strict=True)
    for step, (one, other) in enumerate(of_steps, start=1):
        change = difference(one, other)
        if change > TOLERANCE:
            return f"decoding differs from teacher forcing by {change:.2g} at step {step} {where}"
    return None


def fits(mechanism: Mechanism, Q: int, D: int) -> bool:
    """Whether a mechanism takes queries and annotations of these sizes."""

    def attended() -> PyTree:
        p = mechanism.init(jax.random.key(0), Q, D, E)
        inputs = Inputs(jnp.zeros((2, Q)), jnp.zeros((LENGTH, D)), jnp.zeros((LENGTH, E)))
        return at_once(mechanism, p, inputs, jnp.ones(LENGTH, bool), None)

    try:
        jax.eval_shape(attended)
    except NotRead:  # whatever the sizes
        return True
    except Exception:  # whatever a part raises
        return False
    return True
