"""Long sources and extreme scores: finite weights and derivatives, however XLA fuses them.

Programs are compiled as XLA does by itself, and with the vectors of `launch.sh`. Which operations
are fused, and so rounded once or twice, differs between the two.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attn_jax.attention.parts import Sizes

from attn_jax import NORMALIZERS, SCORES, attend_all
from attn_jax.attention.catalogue import mechanism, resolve
from attn_jax.attention.steps import begin, weigh

XLA = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
FLAGS = {
    "XLA's own": {**XLA, "xla_cpu_prefer_vector_width": 256},
    "launch.sh": {**XLA, "xla_cpu_prefer_vector_width": 512},
}
with_flags = pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)


def run(function, flags, *inputs):
    return jax.jit(function).lower(*inputs).compile(compiler_options=flags)(*inputs)


def narrow(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)


def all_finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


@with_flags
@pytest.mark.parametrize("which", ["heights", "sharpness", "steps"])
@pytest.mark.parametrize("change", [-80, 8, 30])
def test_gmm_over_a_thousand_positions(flags, which, change, generator):
    steps, positions, size = 40, 1000, 16
    part = resolve("score", "gmm(components=5)")
    W = generator.normal(size=(size, 15)) / math.sqrt(size)
    b = np.zeros((3, 5))
    b[["heights", "sharpness", "steps"].index(which)] += change
    queries, annotations, parameters = narrow(
        (
            generator.normal(size=(steps, size)),
            generator.normal(size=(positions, size)),
            {"W": W, "b": b.ravel()},
        )
    )

    def read(queries, annotations, parameters):
        score = part.bound(parameters)
        contexts, weights = attend_all(queries, annotations, annotations, score=score)
        return 1e-20 * contexts.sum(), weights

    gradient = jax.value_and_grad(read, argnums=(0, 1, 2), has_aux=True)
    (total, weights), of_inputs = run(gradient, flags, queries, annotations, parameters)
    assert all_finite((total, weights, of_inputs))
    # Without the weights as an output, XLA fuses other operations.
    alone = jax.value_and_grad(lambda *inputs: read(*inputs)[0], argnums=(0, 1, 2))
    assert all_finite(run(alone, flags, queries, annotations, parameters))
    np.testing.assert_allclose(
        weights,
        mixtures(*map(np.float64, (queries, parameters["W"], parameters["b"])), positions),
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


@with_flags
@pytest.mark.parametrize("name", [*NORMALIZERS, "entmax(alpha=1.2)", "entmax(alpha=3)"])
def test_extreme_scores_give_finite_weights_and_derivatives(flags, name, generator):
    normalizer, positions = resolve("normalizer", name), 2000
    parameters = {n: jnp.array(0.5) for n in normalizer.shapes(Sizes(1, 1, 1))}
    count = normalizer.traits.score_count
    mask = jnp.arange(positions) != 1

    def own(query, keys):  # through a product and a sum, which XLA may fuse with what follows
        scores = 0.7 * keys + query
        return scores if count == 1 else jnp.stack([scores, -0.5 * scores])

    parts = mechanism(own, "full", normalizer.bound(parameters))

    def read(scores):
        memory, query = begin(parts, mask), jnp.array([0.3])
        memory, first = weigh(parts, memory, query, scores, mask)
        _, second = weigh(parts, memory, query, scores[::-1], mask)
        return (jnp.arange(positions) * (first + second)).sum(), (first, second)

    gradient = jax.vmap(jax.value_and_grad(read, has_aux=True))
    (_, weights), of_scores = run(gradient, flags, narrow(extremes(positions, generator)))
    assert all_finite((weights, of_scores))
    for of_step in weights:
        assert not np.any(of_step[:, 1])
        if name not in ("sigmoid", "exponential"):
            assert np.all(of_step.sum(axis=1) < 1 + 1e-4)


@pytest.mark.parametrize("name", ["softmax", "temperature", "sparsemax", "entmax"])
def test_one_extreme_score_takes_all_weight(name):
    scores = jnp.zeros(2000).at[5].set(3e38)
    weights = resolve("normalizer", name).bound({})(scores, jnp.ones(2000, bool))
    np.testing.assert_array_equal(weights, np.arange(2000) == 5)


@with_flags
@pytest.mark.parametrize("name", [name for name in SCORES if name not in ("mean", "last")])
def test_long_sources_and_large_states_give_finite_weights_and_derivatives(flags, name, generator):
    parts, size, steps, positions = mechanism(name), 8, 3, 2000
    shapes = parts.score.shapes(Sizes(size, size, 4))
    queries, annotations, parameters = narrow(
        (
            generator.normal(size=(steps, size)),
            generator.normal(size=(positions, size)),
            {n: generator.normal(size=shape) for n, shape in shapes.items()},
        )
    )
    mask = jnp.arange(positions) < positions - 3

    def read(queries, annotations, parameters):
        keys, score = parts.score.keys(annotations, parameters), parts.score.bound(parameters)
        contexts, _ = attend_all(queries, keys, annotations, mask, score=score)
        return 1e-20 * contexts.sum()

    gradient = jax.value_and_grad(read, argnums=(0, 1, 2))
    compiled = jax.jit(gradient).lower(queries, annotations, parameters)
    compiled = compiled.compile(compiler_options=flags)
    for of_queries, of_parameters in ((1, 1), (1, 8), (1, 100), (1e4, 1), (1e10, 1)):
        larger = jax.tree.map(lambda leaf, by=of_parameters: by * leaf, parameters)
        assert all_finite(compiled(of_queries * queries, annotations, larger))
