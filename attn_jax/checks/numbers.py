"""Checks of weights and gradients as numbers: extreme, differentiated, short and many."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.protocol import Weigher
from attn_jax.checks.findings import Advice
from attn_jax.checks.subject import (
    Inputs,
    Numbers,
    Subject,
    all_finite,
    at_once,
    one_by_one,
    seen,
)

DRAWS = 5  # a check that may fail at a kink fails if most of these do
LONG = 2000
STEP = 1e-4  # of finite differences in float64
CLOSE = 1e-2  # for a derivative, relative
# Of a weight, relative to the largest: 13 and 10 times the distance between numbers near 1.
SHORT = {jnp.bfloat16: 0.1, jnp.float16: 0.01}


def excluded(subject: Subject) -> str | None:
    """Scores and windows exclude positions by -∞."""
    given, inputs = subject.with_given_scores, subject.inputs()
    out = np.arange(subject.length) % 4 == 1
    mask = np.ones(subject.length, bool)
    for mode, rng in subject.modes.items():
        for where in (out, mask):
            scores = np.where(where, -np.inf, inputs.annotations[:, 0])
            rest = _scored(inputs, scores), mask, rng, inputs.annotations
            contexts, weights = given.at_once(given.p, *rest)
            which = "all scores" if where is mask else "some scores"
            if np.any(weights[:, where]):
                return f"positions have weights although their scores are -∞, {mode}"
            if not all_finite((contexts, given.gradient(given.p, *rest))):
                return f"weights or gradients are not finite where {which} are -∞, {mode}"
    return None


def extreme(subject: Subject) -> str | None:
    """Scores of a network that is trained with a large step."""
    given, inputs = subject.with_given_scores, subject.inputs()
    mask = np.ones(subject.length, bool)
    normal, places = inputs.annotations[:, 0], np.arange(subject.length)
    for mode, rng in subject.modes.items():
        for told, scores in {
            "of about ±1e30": 1e30 * normal,
            "of 1e30": np.full_like(normal, 1e30),
            "of -1e30": np.full_like(normal, -1e30),
            "of 0 but one of 1e30": np.where(places == 3, 1e30, 0),
        }.items():
            found = given.at_once(given.p, _scored(inputs, scores), mask, rng, inputs.annotations)
            if not all_finite(found[1]):
                return f"scores {told} give weights that are not finite, {mode}"
        for score in (0.0, 1.5):
            equal = _scored(inputs, np.full_like(normal, score))
            found = given.gradient(given.p, equal, mask, rng, inputs.annotations)
            if not all_finite(found):
                return f"weights or gradients at equal scores are not finite, {mode}"
    return None


def _scored(inputs: Inputs, scores: Float[Numbers, " S"]) -> Inputs:
    rest = inputs.annotations[:, 1:]
    return inputs._replace(annotations=np.column_stack([scores.astype(np.float32), rest]))


def gradients(subject: Subject) -> str | None:
    """One gradient that is not finite ends a training."""
    drawn, mask = subject.inputs(), subject.masks()[0]
    nothing = jax.tree.map(np.zeros_like, drawn)
    padding = drawn.annotations * mask[:, None]
    for told, inputs in {
        "random queries and annotations": drawn,
        "annotations of 0 where the mask is False": drawn._replace(annotations=padding),
        "a query of 0": drawn._replace(queries=nothing.queries),
        "annotations of 0": drawn._replace(annotations=nothing.annotations),
        "queries and annotations of 0": nothing,
    }.items():
        for mode, rng in subject.modes.items():
            if not all_finite(subject.gradient(subject.p, inputs, mask, rng)):
                return f"weights or gradients are not finite for {told}, {mode}"
    return None


def differences(subject: Subject) -> str | None:
    """Gradients are those of finite differences, in float64, at most of some random places."""
    parts = (inner for part in subject.mechanism for inner in part.parts())
    if any(isinstance(inner, Weigher) and inner.surrogate for inner in parts):
        return None
    with jax.enable_x64():
        mask = np.ones(subject.length, bool)
        way = functools.partial(seen, subject.mechanism, way=one_by_one)
        compute = jax.jit(jax.value_and_grad(way, (0, 1)))
        for mode, rng in subject.modes.items():
            wrong = []
            for draw in range(DRAWS):
                place = _wide((subject.p, subject.inputs(draw)))
                slope, measured = _slopes(lambda at: compute(*at, mask, rng), place, draw)  # noqa: B023
                if abs(slope - measured) > CLOSE * max(abs(slope), abs(measured), STEP):
                    wrong.append(f"{slope:.3g} instead of {measured:.3g}")
            if len(wrong) > DRAWS // 2:
                return (
                    f"gradients differ from finite differences at {len(wrong)} of {DRAWS} random "
                    f"places, {mode}: {wrong[0]}"
                )
    return None


def _slopes(compute: Callable, place: PyTree, seed: int) -> tuple[float, float]:
    """The derivative in a random direction, by the gradient and by a finite difference."""
    generator = np.random.default_rng(seed)
    direction = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), place)

    def moved(by: float) -> PyTree:
        return jax.tree.map(lambda leaf, along: leaf + by * along, place, direction)

    _, gradient = compute(place)
    products = jax.tree.map(lambda one, other: float((one * other).sum()), gradient, direction)
    ahead, behind = (float(compute(moved(by))[0]) for by in (STEP, -STEP))
    return sum(jax.tree.leaves(products)), (ahead - behind) / (2 * STEP)


def _wide(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)


def short(subject: Subject) -> str | None:
    """In bfloat16 and float16, weights are close to those in float32, at most random places."""
    mask = np.ones(subject.length, bool)
    for dtype, tolerance in SHORT.items():
        for mode, rng in subject.modes.items():
            distances = []
            for draw in range(DRAWS):
                given = subject.p, subject.inputs(draw)
                narrow = jax.tree.map(lambda leaf: leaf.astype(dtype), given)  # noqa: B023
                wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), narrow)
                found, expected = (
                    np.asarray(subject.at_once(*each, mask, rng)[1], np.float64)
                    for each in (narrow, wide)
                )
                if not all_finite(found):
                    return f"weights are not finite in {jnp.dtype(dtype).name}, {mode}"
                distances.append(np.abs(found - expected).max() / max(expected.max(), 1e-6))
            if np.median(distances) > tolerance:
                return (
                    f"weights in {jnp.dtype(dtype).name} differ from those in float32 by "
                    f"{np.median(distances):.2g} of the largest, {mode}"
                )
    return None


def long(subject: Subject) -> str | None:
    """A book's longest sentences, or characters of a paragraph."""
    inputs, mask = subject.inputs(queries=2, length=LONG), np.arange(LONG) < LONG - 3
    for mode, rng in subject.modes.items():
        if not all_finite(subject.gradient(subject.p, inputs, mask, rng)):
            return f"weights or gradients of {LONG:,} positions are not finite, {mode}"
    return None


def memory(subject: Subject) -> str | None:
    """Would training take less memory if hidden units were recomputed query by query?"""
    m = subject.mechanism
    if m.score not in subject.own or m.has_hidden_units:
        return None
    kind = type(m.score)
    recomputed = type(kind.__name__, (kind,), {"hidden": True, "__module__": kind.__module__})
    score = recomputed(**m.score.settings())
    other = Mechanism(score, m.window, m.normalizer, values=m.values, gate=m.gate)
    inputs, mask = subject.inputs(queries=16, length=LONG), np.ones(LONG, bool)

    def temporary(mechanism: Mechanism) -> int:
        gradient = jax.jit(jax.grad(functools.partial(seen, mechanism, way=at_once), (0, 1)))
        lowered = gradient.lower(subject.p, inputs, mask, jax.random.key(2))
        analysis = lowered.compile().memory_analysis()
        return 0 if analysis is None else analysis.temp_size_in_bytes

    now, then = temporary(m), temporary(other)
    if now <= 4 * then:
        return None
    return Advice(
        f"training on {LONG:,} positions and 16 queries takes {now / 2**20:.0f} MiB, and "
        f"{then / 2**20:.0f} MiB with `hidden = True` in the class of the score"
    )
