"""What heads tell one another, in the attention of a decoder: against float64 loops.

`test_seq2seq` compares whole models, step by step and at once, with the same equations.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Mixing
from attn_jax.config.reading import read
from attn_jax.errors import InputError
from attn_jax.models.attention import Attention
from tests.drawn import encoded
from tests.options import model_options

B, T, S, Q, D = 2, 4, 6, 10, 12
MASK = np.array([[True] * 6, [True] * 4 + [False] * 2])


def made(generator, **options):
    """The attention of a decoder, and queries and annotations."""
    config = model_options(mixing="talking_heads", embedding_size=3, **options)
    attention = Attention(config, Q, D, projection="linear", rngs=nnx.Rngs(0))
    shared = attention.shared.get_value()
    mixing = {
        name: jnp.float32(generator.normal(size=leaf.shape))
        for name, leaf in shared["mixing"].items()
    }
    attention.shared.set_value({**shared, "mixing": mixing})
    inputs = (jnp.float32(generator.normal(size=n)) for n in ((B, T, Q), (B, S, D)))
    return attention, *inputs


def apart(attention):
    """The same attention, whose heads tell one another nothing."""
    mixing = jax.tree.map(lambda leaf: jnp.eye(len(leaf)), attention.shared.get_value()["mixing"])
    attention.shared.set_value({**attention.shared.get_value(), "mixing": mixing})
    return attention


def softmax(scores, reachable):
    e = np.where(reachable, np.exp(scores - scores[reachable].max(initial=-np.inf)), 0)
    return e / e.sum()


@pytest.mark.parametrize("heads", [{"heads": 2}, {"heads": 4, "key_value_heads": 2}])
@pytest.mark.parametrize(
    ("score", "window"), [("scaled_dot", "full"), ("general", "local_m(half_width=1)")]
)
def test_equals_the_papers_loop(generator, heads, score, window):
    attention, queries, annotations = made(generator, score=score, window=window, **heads)
    contexts, weights = attention(
        queries, attention.project(encoded(annotations)), jnp.asarray(MASK)
    )
    p = attention.shared.get_value()["mixing"]
    P, R = (np.float64(p[name]) for name in ("P", "R"))
    N, size = heads["heads"], attention.projections.sizes.Q
    groups = attention.projections.shape[1]
    maps = attention.projections
    for row, step in np.ndindex(B, T):
        reachable = MASK[row].copy()
        if window != "full":
            length = MASK[row].sum()
            reachable &= np.abs(np.arange(S) - min(step, length - 1)) <= 1
        scores, values = np.zeros((N, S)), []
        for n in range(N):
            k, g = divmod(n, groups)
            query = (np.float64(queries[row, step]) @ maps.queries.kernel)[
                n * size : (n + 1) * size
            ]
            keys = (np.float64(annotations[row]) @ maps.keys.kernel)[:, k * size : (k + 1) * size]
            of_head = np.float64(annotations[row]) @ maps.values.kernel
            values.append(of_head[:, k * size : (k + 1) * size])
            if score == "general":
                W = np.float64(attention.parameters.get_value()["score"]["W"][k, g])
                scores[n] = [query @ W @ key for key in keys]
            else:
                scores[n] = [query @ key / np.sqrt(size) for key in keys]
        mixed = [sum(P[m, n] * scores[m] for m in range(N)) for n in range(N)]
        of_heads = [softmax(e, reachable) for e in mixed]
        shown = np.array([sum(R[m, n] * of_heads[m] for m in range(N)) for n in range(N)])
        np.testing.assert_allclose(weights[row, :, step], shown, rtol=1e-4, atol=1e-5)
        read = np.concatenate([a @ v for a, v in zip(shown, values, strict=True)])
        expected = read @ np.float64(maps.output.kernel)
        np.testing.assert_allclose(contexts[row, step], expected, rtol=1e-3, atol=1e-4)
    assert np.any(weights < 0)


HARD = [
    {"score": "location(positions=4)"},
    {"score": "location_aware(filters=2,width=3)"},
    {"score": "coverage", "key_value_heads": 1},
    {"score": "additive", "window": "local_p(half_width=2)", "normalizer": "sparsemax"},
    {"score": "general", "normalizer": "mocha"},
    {"score": "additive", "normalizer": "dropped(forward)"},
    {"score": "gmm"},
]


@pytest.mark.parametrize("options", HARD, ids=lambda options: "-".join(map(str, options.values())))
def test_any_mechanism_is_mixed_alike_at_once_and_step_by_step(generator, options):
    """And gradients are finite, also where the mask is False everywhere."""
    attention, queries, annotations = made(generator, heads=2, **options)
    mask = jnp.asarray(MASK)

    @jax.jit
    def both():
        source = attention.project(encoded(annotations))
        memory, found = attention.begin(mask), []
        for query in jnp.moveaxis(queries, 1, 0):
            memory, *of_step = attention.step(memory, query, source, mask)
            found.append(of_step)
        steps = [jnp.stack(each, axis=-2) for each in zip(*found, strict=True)]
        return attention(queries, source, mask), steps, memory.weights

    at_once, steps, carried = both()
    for one, other in zip(at_once, steps, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    weights = steps[1]
    assert not np.any(weights[1, :, :, 4:])
    if carried is not None:  # what is carried is what is shown
        np.testing.assert_array_equal(carried.reshape(B, 2, S), weights[:, :, -1])

    def total(attention, queries, annotations):
        rng, nowhere = jax.random.split(jax.random.key(1), B), mask.at[1].set(False)
        found = attention(queries, attention.project(encoded(annotations)), nowhere, rng)
        return sum(jnp.square(each).sum() for each in jax.tree.leaves(found))

    gradients = jax.jit(jax.grad(total, (0, 1, 2)))(attention, queries, annotations)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_it_starts_as_heads_apart(generator):
    attention, queries, annotations = made(generator, heads=4, score="general")
    config = model_options(embedding_size=3, heads=4, score="general")
    usual = Attention(config, Q, D, projection="linear", rngs=nnx.Rngs(0))
    mask = jnp.asarray(MASK)
    found, expected = (
        one(queries, one.project(encoded(annotations)), mask) for one in (apart(attention), usual)
    )
    for each, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_close(generator, dtype):
    attention, queries, annotations = made(generator, heads=2, score="scaled_dot")
    mask = jnp.asarray(MASK)
    inputs = queries, annotations
    (queries, annotations) = (each.astype(dtype).astype(jnp.float32) for each in inputs)
    _, wide = attention(queries, attention.project(encoded(annotations)), mask)
    short = jax.tree.map(lambda leaf: leaf.astype(dtype), attention)
    found = short(queries.astype(dtype), short.project(encoded(annotations.astype(dtype))), mask)[1]
    np.testing.assert_allclose(np.float32(found), wide, atol=0.1 * np.abs(wide).max())


class Half(Mixing):
    def weights(self, p, weights):
        return weights[:1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"model.mixing=talking_heads mixes heads, and there is one: give model.heads"),
        (
            {"score": "mean", "heads": 2},
            "talking_heads would change the fixed weights of model.score=mean",
        ),
    ],
)
def test_what_is_not_mixed_is_refused(generator, options, message):
    with pytest.raises(InputError, match=message):
        made(generator, **options)


def test_other_numbers_of_heads_are_refused(generator):
    attention, queries, annotations = made(generator, heads=2)
    attention.mixing = Half()
    with pytest.raises(
        InputError, match=r"Half gives shape \[1, 6\] for weights of shape \[2, 6\]"
    ):
        attention(queries, attention.project(encoded(annotations)), jnp.asarray(MASK))


def test_the_text_of_a_function_is_refused():
    with pytest.raises(InputError, match="math:sqrt is a function, which is no way to mix heads"):
        read(Mixing, "math:sqrt")
