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
from tests.attention import oracle_catalogue as more
from tests.attention import oracle_normalizers as norm
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
    "normed_additive": more.normed_additive,
    "scaled_general": more.scaled_general,
    "biased_general": more.biased_general,
    "activated_general": more.activated_general,
    "qk_norm": more.qk_norm,
    "qk_layer_norm": more.qk_layer_norm,
    "ngpt": more.ngpt,
    "performer": more.performer(A),
    "buckets(buckets=8, distance=5)": more.buckets(8, 5),
    "alibi": more.alibi,
    "rotary": more.rotary,
    "length_aware_rotary(ratio=2)": more.length_aware_rotary,
    "hard_coded(ratio=1.5, sigma=0.8)": more.hard_coded,
    "random_synthesizer(positions=4)": more.random_synthesizer,
    "factorized_synthesizer(positions=9)": more.factorized_synthesizer,
    "cumulative_location(filters=3, width=5)": more.cumulative_location,
    "plain_coverage": more.plain_coverage,
    "neural_coverage(size=3)": more.neural_coverage,
    "recurrent(size=3, half_width=1)": more.recurrent,
    "structural": more.structural,
    "gmm_v1(components=2)": more.gmm_v1,
    "gmm_v2(components=2)": more.gmm_v2,
    "logistics(components=2)": more.logistics,
    "dynamic_convolution(filters=3, width=5, prior=3)": partial(more.dynamic_convolution, prior=3),
    "dynamic_convolution(filters=3, width=4, prior=4)": partial(more.dynamic_convolution, prior=4),
    "mix_attender(units=3)": more.mix_attender,
    "very_attentive(buckets=12, distance=5)": more.very_attentive(12, 5),
    "soft_cap(location(positions=5), cap=0.5)": more.soft_cap(oracle.location, 0.5),
    "self_adaptive(additive, base=2)": more.self_adaptive(oracle.additive, 2),
    "length_scaled(additive)": more.length_scaled(oracle.additive),
    "leaky(additive)": more.leaky(oracle.additive),
    "transition_agent(general)": more.transition_agent(oracle.general),
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
    "around_maximum(back=1, ahead=2)": more.around(more.maximum, 1, 2),
    "around_median(back=1, ahead=2)": more.around(more.median, 1, 2),
    "localness": more.localness,
    "adaptive_span(span=1.3, longest=3, ramp=2)": more.adaptive_span(3, 2),
    "wait_k(k=2)": more.wait_k(2),
    "diagonal_prior(sharpness=2, ratio=0.7)": more.diagonal_prior(2, 0.7, 0),
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
    "off_by_one": norm.off_by_one,
    "relu": norm.relu,
    "constrained_softmax(fertility=1.2)": norm.constrained_softmax(1.2),
    "constrained_sparsemax(fertility=1.2)": norm.constrained_sparsemax(1.2),
    "fusedmax(penalty=2)": norm.fusedmax(2),
    "oscarmax(penalty=0.6)": norm.oscarmax(0.6),
    "differential": norm.differential,
    "continuous(bells=3)": norm.continuous(3),
    "smoothing": norm.smoothing,
    "annealed(first=0.7)": partial(oracle.softmax, tau=0.7),  # at the first training step
    "scalable_softmax": norm.scalable_softmax,
    "intra_temporal": norm.intra_temporal,
    "selective": norm.selective,
    "stick_breaking": norm.stick_breaking,
    "segments": norm.segments,
    "gumbel(tau=0.7)": partial(oracle.softmax, tau=0.7),  # in use
    "straight_through": norm.straight_through,
    "learned_entmax": norm.learned_entmax,
    "top_k(k=3)": norm.top_k(3),
    "evidential": norm.evidential,
    "stepwise": norm.stepwise(hard=True),
    "stepwise(noise=0)": norm.stepwise(hard=False),
    "milk(noise=0)": norm.milk,
    "mma_h": norm.mma_h(hard=True),
    "mma_h(noise=0)": norm.mma_h(hard=False),
    "stable_mocha(chunk=2)": norm.stable_mocha(2, hard=True),
    "stable_mocha(noise=0, chunk=2)": norm.stable_mocha(2, hard=False),
    "truncated": norm.truncated(hard=True),
    "truncated(noise=0)": norm.truncated(hard=False),
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
    case(score="hard_coded(ratio=1.5, sigma=0.8)", normalizer="exponential"),
    *(case(window=name) for name in WINDOW_LOOPS),
    *(case(normalizer=name) for name in NORMALIZER_LOOPS if name != "exponential"),
    case("location_aware(filters=3, width=5)", "local_p(half_width=2)", "sparsemax"),
    case("coverage", "local_m(half_width=2)", "entmax(alpha=1.2)"),
    case("relative(distance=2)", "full", "mocha(noise=0)"),
    case("leaky(additive)", "full", "off_by_one"),
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


def sizes_of(mechanism):
    """Q and D that a mechanism takes: of a dot score the same, of a rotary one even."""
    for sizes in ((Q, D), (Q, Q)):
        try:
            shapes_of(mechanism, *sizes)
            return sizes
        except InputError:
            pass
    return Q + 1, Q + 1


def draw(generator, mechanism):
    """Parameters, queries and annotations in float64."""
    of_query, size = sizes_of(mechanism)
    queries = generator.normal(size=(B, T, of_query))
    annotations = generator.normal(size=(B, S, size))
    p = {
        name: parameters(generator, getattr(mechanism, name), of_query, size)
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
    if read(Normalizer, normalizer).scores == 2 and plain(score) != "pair":
        score_loop = oracle.pair(score_loop, score_loop)
    return oracle.attend(
        queries,
        annotations,
        list(map(bool, mask)),
        partial(score_loop, **p["score"]),
        partial(WINDOW_LOOPS[window], **p["window"]),
        partial(normalizer_loop, **p["normalizer"]),
    )
