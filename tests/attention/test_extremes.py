"""Long sources and extreme scores: finite weights and derivatives, however XLA fuses them.

Programs are compiled as XLA does by itself, and with the vectors of `launch.sh`. Which operations
are fused, and so rounded once or twice, differs between the two.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import (
    NORMALIZERS,
    SCORES,
    Mechanism,
    Normalizer,
    Past,
    Score,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.attention.compositions import Pair
from attn_jax.attention.moving_scores import Gmm
from attn_jax.config.reading import read
from tests.attention.cases import as_arrays, parameters
from tests.options import with_units
from tests.stages import full

XLA = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
FLAGS = {
    "XLA's own": {**XLA, "xla_cpu_prefer_vector_width": 256},
    "launch.sh": {**XLA, "xla_cpu_prefer_vector_width": 512},
}
with_flags = pytest.mark.parametrize(
    "flags",
    [
        pytest.param(flags, id=name, marks=[] if name == "launch.sh" else full)
        for name, flags in FLAGS.items()
    ],
)


def compiled(function, flags, *inputs):
    return jax.jit(function).lower(*inputs).compile(compiler_options=flags)


def all_finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@pytest.fixture(scope="module", params=FLAGS.values(), ids=FLAGS)
def bells(request):
    """The derivatives of Gaussian mixtures with weights as another output, and without.

    Without them, XLA fuses other operations.
    """

    def total(queries, annotations, p):
        contexts, weights = attend_all(Gmm(components=5), p, queries, annotations)
        return 1e-20 * contexts.sum(), weights

    p = {"W": jnp.zeros((16, 15)), "b": jnp.zeros(15)}
    given = jnp.zeros((40, 16)), jnp.zeros((1000, 16)), p
    functions = total, lambda *inputs: total(*inputs)[0]
    gradients = (
        jax.value_and_grad(function, argnums=(0, 1, 2), has_aux=function is total)
        for function in functions
    )
    return [compiled(gradient, request.param, *given) for gradient in gradients]


@pytest.mark.parametrize("which", ["heights", "sharpness", "steps"])
@pytest.mark.parametrize("change", [-80, 8, 30])
def test_gmm_over_a_thousand_positions(bells, which, change, generator):
    W = generator.normal(size=(16, 15)) / 4
    b = np.zeros((3, 5))
    b[["heights", "sharpness", "steps"].index(which)] += change
    queries, annotations = generator.normal(size=(40, 16)), generator.normal(size=(1000, 16))
    inputs = as_arrays((queries, annotations, {"W": W, "b": b.ravel()}))
    with_weights, alone = bells
    (value, weights), of_inputs = with_weights(*inputs)
    assert all_finite((value, weights, of_inputs, alone(*inputs)))
    queries, _, p = inputs
    np.testing.assert_allclose(
        weights,
        mixtures(*map(np.float64, (queries, p["W"], p["b"])), 1000),
        rtol=2e-2,  # an error in the place of a bell is multiplied by its distance and sharpness
        atol=1e-3,
    )


def mixtures(queries, W, b, positions):
    """Graves 2013, equations 46 to 51, in float64."""
    heights, sharpness, steps = np.split(np.exp(queries @ W + b)[..., None], 3, axis=1)
    distances = np.cumsum(steps, axis=0) - np.arange(1, positions + 1)
    return (heights * np.exp(-sharpness * distances**2)).sum(axis=1)


def extremes(positions, generator):
    """Rows of scores, all finite."""
    normal, even = generator.normal(size=positions), np.arange(positions) % 2 == 0
    one = np.where(np.arange(positions) == positions // 2, 3e38, 0)
    factors = (1, 1e3, 1e9, 1e10, 1e12, 1e20, 1e37)
    rows = [factor * normal for factor in factors]
    rows += [one, -one, np.where(even, 3e38, -3e38), np.where(even, 3e38, normal)]
    return np.stack([*rows, np.full(positions, 3e38), np.full(positions, -3e38)])


class Fused(Score):
    """Scores through a product and a sum, which XLA may fuse with what follows."""

    factor: float = 0.7
    gives_logarithms = True

    def score(self, p, query, keys, past):
        return self.factor * keys[:, 0] + query


@with_flags
@pytest.mark.parametrize(
    ("name", "rng"),
    [
        *((name, None) for name in [*NORMALIZERS, "entmax(alpha=1.2)", "entmax(alpha=3)"]),
        *((name, 0) for name in ("monotonic", "mocha", "milk", "stepwise")),  # in training
    ],
)
def test_extreme_scores_give_finite_weights_and_derivatives(flags, name, rng, generator):
    normalizer, positions = read(Normalizer, name), 2000
    rng = None if rng is None else jax.random.key(rng)
    score = Fused() if normalizer.scores == 1 else Pair(Fused(), Fused(factor=-0.35))
    mechanism = Mechanism(score, normalizer=normalizer)
    first = normalizer.init(jax.random.key(0), 1, 1)
    own = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.5), first)
    p = mechanism.init(jax.random.key(0), 1, 1) | {"normalizer": own}
    mask = jnp.arange(positions) != 1
    query = jnp.array([0.3])

    def total(scores):
        sentence, memory = begin(mechanism, p, scores[:, None], mask)
        memory, _, first = attend_step(mechanism, p, sentence, memory, query, rng=rng)
        sentence, _ = begin(mechanism, p, scores[::-1, None], mask)
        _, _, second = attend_step(mechanism, p, sentence, memory, query, rng=rng)
        return (jnp.arange(positions) * (first + second)).sum(), (first, second)

    gradient = jax.vmap(jax.value_and_grad(total, has_aux=True))
    scores = as_arrays(extremes(positions, generator))
    (_, weights), of_scores = compiled(gradient, flags, scores)(scores)
    assert all_finite((weights, of_scores))
    for of_step in weights:
        assert not np.any(of_step[:, 1])
        if name not in ("sigmoid", "exponential", "relu", "segments", "continuous"):
            assert np.all(of_step.sum(axis=1) < 1 + 1e-4)


@pytest.mark.parametrize("name", ["softmax", "temperature", "sparsemax", "entmax"])
def test_one_extreme_score_takes_all_weight(name):
    scores, mask = jnp.zeros(2000).at[5].set(3e38), jnp.ones(2000, bool)
    weights = read(Normalizer, name).weights({}, scores, mask, Past(mask=mask, rng=None))
    np.testing.assert_array_equal(weights, np.arange(2000) == 5)


@with_flags
@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("mean", "last")])
def test_long_sources_and_large_states_give_finite_weights_and_derivatives(flags, name, generator):
    score, size, count, positions = with_units(read(Score, name), 4), 8, 3, 2000
    p, queries, annotations = as_arrays(
        (
            parameters(generator, score, size, size),
            generator.normal(size=(count, size)),
            generator.normal(size=(positions, size)),
        )
    )
    mask = jnp.arange(positions) < positions - 3

    def total(p, queries, annotations):
        contexts, _ = attend_all(score, p, queries, annotations, mask)
        return 1e-20 * contexts.sum()

    gradient = jax.value_and_grad(total, argnums=(0, 1, 2))
    program = compiled(gradient, flags, p, queries, annotations)
    for of_queries, of_parameters in ((1, 1), (1, 8), (1, 100), (1e4, 1), (1e10, 1)):
        larger = jax.tree.map(lambda leaf, by=of_parameters: by * leaf, p)
        assert all_finite(program(larger, of_queries * queries, annotations))
