"""Checks that all ways to compute a mechanism agree."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import PyTree

from attn_jax.checks.subject import (
    TOLERANCE,
    Inputs,
    Subject,
    at_once,
    difference,
    modes,
    one_by_one,
)
from attn_jax.config import Model
from attn_jax.models.attention import Attention

ROWS = 3
BETWEEN = "a part keeps something from one call to another, which `start` and `advance` are for"
# As XLA compiles by itself, whatever the flags of this process are.
OPTIMIZED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}


def decoding(subject: Subject) -> str | None:
    """Training computes all steps at once where it can, decoding one after another."""
    inputs, mask = subject.inputs(), subject.masks()[0]
    for mode, rng in modes():
        whole = subject.at_once(subject.p, inputs, mask, rng)
        steps = subject.one_by_one(subject.p, inputs, mask, rng)
        if problem := _apart(whole, steps, f"{mode}: {BETWEEN}"):
            return problem
    return None


def heads(subject: Subject) -> str | None:
    """The same in a model: a batch, and four heads of which two share keys and values."""
    attention, queries, annotations, mask = _of_a_model(subject)

    @jax.jit
    def both() -> PyTree:
        source = attention.project(annotations)
        whole = attention(queries, source, mask)
        memory, found = attention.begin(mask), []
        for query in jnp.moveaxis(queries, 1, 0):
            memory, *of_step = attention.step(memory, query, source, mask)
            found.append(of_step)
        contexts, weights = (jnp.stack(each, axis=-2) for each in zip(*found, strict=True))
        return whole, (contexts, weights)

    whole, steps = both()
    by_step = (jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -2, 0), each) for each in (whole, steps))
    return _apart(*by_step, f"in a model of {attention.projections.shape} heads")


def _of_a_model(subject: Subject) -> tuple:
    m, rows = subject.mechanism, range(ROWS)
    queries, annotations = (
        jnp.stack(each) for each in zip(*map(subject.inputs, rows), strict=True)
    )
    ends = jnp.array([subject.length // (1 + row) for row in rows])
    config = Model(score=m.score, window=m.window, normalizer=m.normalizer)
    several = Model(
        score=m.score,
        window=m.window,
        normalizer=m.normalizer,
        heads=4,
        key_value_heads=2,
        head_size=subject.Q,
    )
    # A part may hold arrays that fit only these sizes, which heads would change.
    one_size = fits(subject.mechanism, subject.Q, subject.Q)
    attention = Attention(
        several if one_size else config,
        subject.Q,
        subject.D,
        subject.D,
        projection="linear" if one_size else "none",
        rngs=nnx.Rngs(0),
    )
    return attention, queries, annotations, jnp.arange(subject.length) < ends[:, None]


def compiled(subject: Subject) -> str | None:
    """What XLA makes of the code, and what Python does without it."""
    way = functools.partial(one_by_one, subject.mechanism)
    fast = jax.jit(way, compiler_options=OPTIMIZED)
    inputs, mask = subject.inputs(queries=2), subject.masks()[0]
    for mode, rng in modes():
        change = difference(*(each(subject.p, inputs, mask, rng) for each in (way, fast)))
        if change > TOLERANCE:
            return f"compiled by `jax.jit`, weights or contexts differ by {change:.2g} {mode}"
    return None


def _apart(whole: PyTree, steps: PyTree, where: str) -> str | None:
    """Where what all steps at once and one after another give is not the same."""
    of_steps = [
        difference(*(jax.tree.map(lambda leaf: leaf[step], each) for each in (whole, steps)))  # noqa: B023
        for step in range(len(jax.tree.leaves(whole)[0]))
    ]
    first = next((n for n, change in enumerate(of_steps) if change > TOLERANCE), None)
    if first is None:
        return None
    return (
        f"decoding differs from teacher forcing by {of_steps[first]:.2g} at step {first + 1} {where}"
    )


def fits(mechanism, Q: int, D: int) -> bool:
    """Whether a mechanism takes queries and annotations of these sizes."""

    def attended() -> PyTree:
        p = mechanism.init(jax.random.key(0), Q, D)
        inputs = Inputs(jnp.zeros((2, Q)), jnp.zeros((9, D)))
        return at_once(mechanism, p, inputs, jnp.ones(9, bool), None)

    try:
        jax.eval_shape(attended)
    except Exception:  # whatever a part raises
        return False
    return True
