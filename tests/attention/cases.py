"""Mechanisms by name with their oracles, and the ways to run them.

Sizes are distinct primes, so that a swapped axis cannot pass. The second sentence is padded, and
the third has a gap.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    Mechanism,
    Normalizer,
    Score,
    Window,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.config.reading import read
from attn_jax.errors import InputError
from tests.attention import oracle
from tests.options import with_units

B, T, S, Q, D, A = 3, 5, 7, 11, 13, 2
MASK = np.ones((B, S), bool)
MASK[1, 5:] = False
MASK[2, 2] = False

PROJECTED = oracle.projected(oracle.dot)
SCORE_LOOPS = {
    "additive": oracle.additive,
    "dot": oracle.dot,
    "scaled_dot": oracle.scaled_dot,
    "general": oracle.general,
    "concat": oracle.concat,
    "cosine": oracle.cosine,
    "linear": oracle.linear,
    "relative(distance=2)": oracle.relative,
    "location": oracle.location,
    "location(positions=5)": oracle.location,
    "location_aware(filters=3, width=5)": oracle.location_aware,
    "location_aware(filters=3, width=2)": oracle.location_aware,
    "coverage": oracle.coverage,
    "gmm(components=2)": oracle.gmm,
    "mean": oracle.mean,
    "last": oracle.last,
    "projected(dot)": PROJECTED,
    "projected(location_aware(filters=3, width=5))": oracle.projected(oracle.location_aware),
    "pair(projected(dot), projected(dot))": oracle.pair(PROJECTED, PROJECTED),
    "pair(projected(dot), additive)": oracle.pair(PROJECTED, oracle.additive),
}
WINDOW_LOOPS = {
    "full": oracle.full,
    "local_m(half_width=2)": partial(oracle.local_m, half_width=2),
    "local_p(half_width=2)": partial(oracle.local_p, half_width=2),
}
NORMALIZER_LOOPS = {
    "softmax": oracle.softmax,
    "temperature(tau=0.7)": partial(oracle.softmax, tau=0.7),
    "sparsemax": oracle.sparsemax,
    "entmax": oracle.entmax(1.5),
    "entmax(alpha=1.2)": oracle.entmax(1.2),
    "entmax(alpha=3)": oracle.entmax(3),
    "sigmoid": oracle.sigmoids,
    "null": oracle.null,
    "exponential": oracle.exponential,
    "forward": oracle.forward,
    "monotonic": oracle.hard_monotonic,
    "mocha(chunk=2)": partial(oracle.hard_mocha, chunk=2),
    # With an rng, as in training, and without noise.
    "monotonic(noise=0)": oracle.monotonic,
    "mocha(noise=0)": oracle.mocha,
}


def case(score="general", window="full", normalizer="softmax"):
    return pytest.param(score, window, normalizer, id=f"{score}-{window}-{normalizer}")


def plain(name):
    return name.partition("(")[0]


CASES = [
    *(case(score=name) for name in SCORE_LOOPS if plain(name) not in ("gmm", "pair")),
    case(score="gmm(components=2)", normalizer="exponential"),
    case(score="gmm(components=2)", normalizer="softmax"),
    *(case(window=name) for name in WINDOW_LOOPS),
    *(case(normalizer=name) for name in NORMALIZER_LOOPS if name != "exponential"),
    case("location_aware(filters=3, width=5)", "local_p(half_width=2)", "sparsemax"),
    case("coverage", "local_m(half_width=2)", "entmax(alpha=1.2)"),
    case("relative(distance=2)", "full", "mocha(noise=0)"),
    case("location(positions=5)", "full", "monotonic(noise=0)"),
    case("pair(projected(dot), projected(dot))", "full", "mocha(noise=0)"),
    case("pair(projected(dot), additive)", "full", "mocha(chunk=2)"),
]


def made(score="general", window="full", normalizer="softmax"):
    """A mechanism by the names of its parts, with few hidden units."""
    return Mechanism(
        with_units(read(Score, score), A),
        with_units(read(Window, window), A),
        read(Normalizer, normalizer),
    )


def rng_of(mechanism):
    """A random key for what is trained without noise; none for what is used."""
    quiet = getattr(mechanism.normalizer, "noise", None) == 0
    return jax.random.key(0) if quiet else None


def parameters(generator, part, Q=Q, D=D):
    """Parameters of a part or a mechanism, in float64: normal numbers in the shapes of `init`."""
    return jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), shapes_of(part, Q, D))


def shapes_of(part, Q, D):
    return jax.eval_shape(lambda rng: part.init(rng, Q, D), jax.random.key(0))


def draw(generator, mechanism):
    """Parameters, queries and annotations in float64."""
    size = D
    try:
        shapes_of(mechanism, Q, D)
    except InputError:  # a dot score
        size = Q
    queries, annotations = generator.normal(size=(B, T, Q)), generator.normal(size=(B, S, size))
    p = {
        name: parameters(generator, getattr(mechanism, name), Q, size)
        for name in ("window", "normalizer", "score")
    }
    return p, queries, annotations


def as_arrays(tree, dtype=jnp.float32):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), tree)


def step_by_step(mechanism, p, queries, annotations, mask):
    """The contexts and the weights of one sentence by `attend_step`."""
    rng = rng_of(mechanism)
    sentence, memory = begin(mechanism, p, annotations, mask)

    def step(memory, query):
        memory, context, weights = attend_step(mechanism, p, sentence, memory, query, rng=rng)
        return memory, (context, weights)

    return jax.lax.scan(step, memory, queries)[1]


def at_once(mechanism, p, queries, annotations, mask):
    """The same by `attend_all`."""
    return attend_all(mechanism, p, queries, annotations, mask, rng=rng_of(mechanism))


def by_loop(names, p, queries, annotations, mask):
    """The same by the oracle."""
    score, window, normalizer = names
    score_loop, normalizer_loop = SCORE_LOOPS[score], NORMALIZER_LOOPS[normalizer]
    if plain(normalizer) == "mocha" and plain(score) != "pair":
        score_loop = oracle.pair(score_loop, score_loop)
    return oracle.attend(
        queries,
        annotations,
        list(map(bool, mask)),
        partial(score_loop, **p["score"]),
        partial(WINDOW_LOOPS[window], **p["window"]),
        partial(normalizer_loop, **p["normalizer"]),
    )
