"""Every mechanism over whole sentences, against float64 loops from the papers.

Sizes are distinct primes, so that a swapped axis cannot pass. The second sentence is padded, and
the third has a gap.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attn_jax.attention.parts import Sizes
from jax.test_util import check_grads

from attn_jax import NORMALIZERS, SCORES, WINDOWS, attend_all, attend_step, begin
from attn_jax.attention.catalogue import mechanism, resolve
from attn_jax.attention.scores import stacked
from attn_jax.errors import InputError
from tests.attention import oracle

B, T, S, Q, D, A = 3, 5, 7, 11, 13, 2
MASK = np.ones((B, S), bool)
MASK[1, 5:] = False
MASK[2, 2] = False

LOOPS = {
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
    "full": oracle.full,
    "local_m(half_width=2)": partial(oracle.local_m, half_width=2),
    "local_p(half_width=2)": partial(oracle.local_p, half_width=2),
    "softmax": oracle.softmax,
    "temperature(tau=0.7)": partial(oracle.softmax, tau=0.7),
    "sparsemax": oracle.sparsemax,
    "entmax": oracle.entmax(1.5),
    "entmax(alpha=1.2)": oracle.entmax(1.2),
    "entmax(alpha=3)": oracle.entmax(3),
    "sigmoid": oracle.sigmoids,
    "null": oracle.null,
    "exponential": oracle.exponential,
    "monotonic": oracle.monotonic,
    "mocha(chunk=3)": oracle.mocha,
    "forward": oracle.forward,
    "attn_jax.attention.monotonic:hard_monotonic": oracle.hard_monotonic,
    "attn_jax.attention.monotonic:hard_mocha": oracle.hard_mocha,
}


def plain(name):
    return name.partition("(")[0]


def case(score="general", window="full", normalizer="softmax"):
    return pytest.param(score, window, normalizer, id=f"{score}-{window}-{normalizer}")


def is_of(table):
    return [name for name in LOOPS if plain(name) in table]


CASES = [
    *(case(score=n) for n in is_of(SCORES) if plain(n) != "gmm"),
    case(score="gmm(components=2)", normalizer="exponential"),
    case(score="gmm(components=2)", normalizer="softmax"),
    *(case(window=n) for n in is_of(WINDOWS)),
    *(case(normalizer=n) for n in is_of(NORMALIZERS) if plain(n) != "exponential"),
    case(normalizer="attn_jax.attention.monotonic:hard_monotonic"),
    case(normalizer="attn_jax.attention.monotonic:hard_mocha"),
    case("location_aware(filters=3, width=5)", "local_p(half_width=2)", "sparsemax"),
    case("coverage", "local_m(half_width=2)", "entmax(alpha=1.2)"),
    case("relative(distance=2)", "full", "mocha(chunk=3)"),
    case("location(positions=5)", "full", "monotonic"),
]


def test_every_mechanism_has_an_oracle():
    known = {plain(name) for name in LOOPS}
    assert known > {*SCORES, *WINDOWS, *NORMALIZERS}


def draw(generator, parts):
    """Queries, annotations and parameters of a mechanism, with one set for each of its scores."""
    sizes = Sizes(Q, D, A)
    try:
        parts.score.shapes(sizes)
    except InputError:  # a dot score
        sizes = Sizes(Q, Q, A)

    def parameters(part):
        return {n: generator.normal(size=s) for n, s in part.shapes(sizes).items()}

    return (
        generator.normal(size=(B, T, sizes.Q)),
        generator.normal(size=(B, S, sizes.D)),
        [
            parameters(part)
            for part in (
                parts.window,
                parts.normalizer,
                *[parts.score] * parts.normalizer.traits.score_count,
            )
        ],
    )


def bound(parts, annotations, parameters):
    """The keys of one sentence, and the parts with their parameters."""
    window, normalizer, *scores = parameters
    keys = tuple(parts.score.keys(annotations, own) for own in scores)
    bound = [parts.score.bound(own) for own in scores]
    return keys if len(scores) > 1 else keys[0], {
        "score": stacked(bound) if len(scores) > 1 else bound[0],
        "window": parts.window.bound(window),
        "normalizer": parts.normalizer.bound(normalizer),
    }


def through(parts, queries, annotations, mask, parameters):
    """The contexts and the weights of one sentence by `attend_step`."""
    keys, chosen = bound(parts, annotations, parameters)

    def step(memory, query):
        memory, context, weights = attend_step(memory, query, keys, annotations, mask, **chosen)
        return memory, (context, weights)

    return jax.lax.scan(step, begin(mask, **chosen), queries)[1]


def at_once(parts, queries, annotations, mask, parameters):
    """The same by `attend_all`."""
    keys, chosen = bound(parts, annotations, parameters)
    return attend_all(queries, keys, annotations, mask, **chosen)


def by_loop(names, queries, annotations, mask, parameters):
    window, normalizer, *scores = parameters
    score, window_loop, normalizer_loop = (LOOPS[name] for name in names)

    def scored(query, annotations, mask, past):
        found = [score(query, annotations, mask, past, **own) for own in scores]
        return found if len(found) > 1 else found[0]

    return oracle.attend(
        queries,
        annotations,
        list(map(bool, mask)),
        scored,
        partial(window_loop, **window),
        partial(normalizer_loop, **normalizer),
    )


@pytest.mark.parametrize(("score", "window", "normalizer"), CASES)
def test_equals_the_papers_loop_under_jit_and_vmap(score, window, normalizer, generator):
    parts = mechanism(score, window, normalizer)
    queries, annotations, parameters = draw(generator, parts)
    narrow = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (queries, annotations, parameters))

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0, None))
    def batched(*sentence):
        return through(parts, *sentence), at_once(parts, *sentence)

    both = batched(narrow[0], narrow[1], jnp.asarray(MASK), narrow[2])
    for row in range(B):
        expected = by_loop(
            (score, window, normalizer), queries[row], annotations[row], MASK[row], parameters
        )
        scale = max(1.0, np.abs(expected[0]).max())
        for contexts, alignment in both:
            np.testing.assert_allclose(alignment[row], expected[1], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(contexts[row] / scale, expected[0] / scale, atol=1e-5)
            assert not np.any(alignment[row][:, ~MASK[row]])


FACTORED = ["additive", "concat", "linear"]  # the scores with hidden units
LOOKING_BACK = ["location_aware(filters=2, width=3)", "coverage"]


def test_each_score_with_hidden_units_is_factored():
    assert [name for name in SCORES if mechanism(name).score.factored] == FACTORED


@pytest.mark.parametrize("score", FACTORED + LOOKING_BACK)
def test_a_derivative_holds_no_hidden_units_of_all_queries(score, generator):
    parts, units = mechanism(score), 64
    shapes = parts.score.shapes(Sizes(Q, D, units))
    parameters = {n: jnp.asarray(generator.normal(size=s)) for n, s in shapes.items()}

    def held(length):
        queries, annotations = jnp.ones((length, Q)), jnp.ones((length, D))

        def squares(queries, annotations, parameters):
            mask = jnp.ones(length, bool)
            read = at_once(parts, queries, annotations, mask, [{}, {}, parameters])
            return sum((each**2).sum() for each in read)

        gradient = jax.jit(jax.grad(squares, argnums=(0, 1, 2)))
        program = gradient.lower(queries, annotations, parameters).compile()
        return program.memory_analysis().temp_size_in_bytes

    short, long = 64, 256
    numbers = (held(long) - held(short)) / 4
    assert numbers < (long**2 - short**2) * units / 4


ROUGH = ("sparsemax", "entmax", "local_p")
SMOOTH_OR_ROUGH = [one for one in CASES if "hard" not in one.id]  # hard ones have no gradient


@pytest.mark.parametrize(("score", "window", "normalizer"), SMOOTH_OR_ROUGH)
def test_gradients(score, window, normalizer, generator):
    """To second order for smooth mechanisms; for others to first order, away from the kinks."""
    parts = mechanism(score, window, normalizer)
    order = 1 if any(plain(n) in ROUGH for n in (score, window, normalizer)) else 2
    with jax.enable_x64(True):
        queries, annotations, parameters = jax.tree.map(jnp.asarray, draw(generator, parts))
        inputs = queries[2, :3], annotations[2], parameters

        def function(*inputs):
            # `check_grads` perturbs inputs in NumPy, but the signatures require JAX's arrays.
            queries, annotations, parameters = jax.tree.map(jnp.asarray, inputs)
            return through(parts, queries, annotations, jnp.asarray(MASK[2]), parameters)

        check_grads(jax.jit(function), inputs, order=order, rtol=1e-4, atol=1e-4)

        def gradient(unrolled):
            def total(queries, annotations, parameters):
                read = unrolled(parts, queries, annotations, jnp.asarray(MASK[2]), parameters)
                return sum((jnp.arange(1, each.size + 1) * each.ravel()).sum() for each in read)

            return jax.tree.leaves(jax.jit(jax.grad(total, argnums=(0, 1, 2)))(*inputs))

        for one, other in zip(gradient(at_once), gradient(through), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize(("score", "window", "normalizer"), CASES)
def test_a_fully_masked_sentence_is_zero_with_finite_gradients(
    score, window, normalizer, dtype, generator
):
    parts = mechanism(score, window, normalizer)
    queries, annotations, parameters = draw(generator, parts)
    inputs = jax.tree.map(
        lambda x: jnp.asarray(x, dtype), (queries[0, :2], annotations[0], parameters)
    )
    nowhere = jnp.zeros(S, bool)

    def read(queries, annotations, parameters):
        contexts, alignment = through(parts, queries, annotations, nowhere, parameters)
        return contexts.astype(jnp.float32).sum(), (contexts, alignment)

    gradients, (contexts, alignment) = jax.jit(jax.grad(read, argnums=(0, 1, 2), has_aux=True))(
        *inputs
    )
    assert not np.any(contexts)
    assert not np.any(alignment)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize(("score", "window", "normalizer"), CASES)
def test_more_padding_changes_nothing(score, window, normalizer, generator):
    parts = mechanism(score, window, normalizer)
    queries, annotations, parameters = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float32), draw(generator, parts)
    )
    mask = jnp.asarray(MASK[1])
    expected = through(parts, queries[1], annotations[1], mask, parameters)
    longer = jnp.pad(annotations[1], ((0, 4), (0, 0)), constant_values=3.0)
    contexts, alignment = through(parts, queries[1], longer, jnp.pad(mask, (0, 4)), parameters)
    np.testing.assert_allclose(contexts, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(alignment[:, :S], expected[1], rtol=1e-5, atol=1e-6)
    assert not np.any(alignment[:, S:])


def test_noise_is_of_the_given_rng_and_off_without():
    scores, mask = jnp.zeros(S), jnp.ones(S, bool)
    normalizer = resolve("normalizer", "monotonic").bound({"r": jnp.zeros(())})
    memory = begin(mask, score="dot", normalizer=normalizer)

    def weights(rng):
        return normalizer(scores, mask, memory=memory, rng=rng)

    np.testing.assert_array_equal(weights(None), 0.5 ** np.arange(1, S + 1))
    assert np.any(weights(jax.random.key(0)) != weights(jax.random.key(1)))
    np.testing.assert_array_equal(weights(jax.random.key(0)), weights(jax.random.key(0)))
