"""Values apart from keys, and gates on their sums, for one head: against float64 loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attn_jax import Gate, Mechanism, Score, Values, attend, attend_all, attend_step, begin
from attn_jax.attention import (
    Annotations,
    Coverage,
    Dot,
    Elementwise,
    Embeddings,
    FineGrained,
    General,
    Headwise,
    KeyValue,
    Leak,
    Leaky,
    LocalM,
    Mean,
    RmsNorm,
    Sum,
    Ungated,
)
from attn_jax.errors import InputError
from tests.attention import oracle
from tests.attention import oracle_catalogue as more
from tests.attention import oracle_normalizers as norm

T, S, Q, D, E = 5, 7, 11, 14, 3
MASK = np.arange(S) < 6
VALUES = [Annotations(), Embeddings(), Sum(), KeyValue()]
GATES = [Ungated(), Elementwise(), Headwise(), RmsNorm(), Leak()]
MECHANISMS = [
    *(Mechanism(General(), values=values, gate=Elementwise()) for values in VALUES),
    *(Mechanism(Coverage(units=2), values=Sum(), gate=gate) for gate in GATES),
    Mechanism(General(), LocalM(half_width=2), values=KeyValue(), gate=Headwise()),
    Mechanism(Mean(), values=Embeddings()),
    Mechanism(Leaky(General()), gate=Leak()),
    Mechanism(FineGrained(units=2)),
    Mechanism(FineGrained(units=2), LocalM(half_width=2), gate=Headwise()),
]
every = pytest.mark.parametrize(
    "mechanism", MECHANISMS, ids=lambda m: "-".join(part.name for part in m.parts)
)


def drawn(mechanism, generator, size=E):
    """Parameters, queries, annotations and word vectors in float64."""
    shapes = jax.eval_shape(lambda rng: mechanism.init(rng, Q, D, size), jax.random.key(0))
    p = jax.tree.map(lambda leaf: generator.normal(size=leaf.shape), shapes)
    return p, *(generator.normal(size=size) for size in ((T, Q), (S, D), (S, size)))


def loop(mechanism, p, queries, annotations, embeddings):
    """The contexts, from the papers."""
    kind, gate = type(mechanism.values), type(mechanism.gate)
    keys, values = annotations, annotations
    if kind is Embeddings:  # Russin et al. 2019, section 3
        values = embeddings
    if kind is Sum:  # Gehring et al. 2017, sections 3.2 to 3.4: m sqrt(1/m) for m = 6 words
        mapped = [oracle.matvec(p["values"]["W"], h) for h in annotations]
        values = 6 * np.sqrt(1 / 6) * (np.array(mapped) + embeddings)
    if kind is KeyValue:  # Daniluk et al. 2017, equations 5 to 8
        keys, values = annotations[:, ::2], annotations[:, 1::2]
    score = {
        General: oracle.general,
        Coverage: oracle.coverage,
        Mean: oracle.mean,
        Leaky: more.leaky(oracle.general),
        FineGrained: oracle.additive,  # Choi, Cho and Bengio 2018
    }

    def weights_by(parameters):
        _, weights = oracle.attend(
            queries,
            keys,
            list(map(bool, MASK)),
            lambda *seen: score[type(mechanism.score)](*seen, **parameters),
            (lambda *seen: oracle.local_m(*seen, half_width=2))
            if isinstance(mechanism.window, LocalM)
            else oracle.full,
            norm.off_by_one if isinstance(mechanism.score, Leaky) else oracle.softmax,
        )
        return weights

    if isinstance(mechanism.score, FineGrained):  # a weight for each feature
        W, U, V = (p["score"][name] for name in "WUV")
        weights = np.stack([weights_by({"W": W, "U": U, "v": v}) for v in V.T], axis=-1)
    else:
        weights = weights_by(p["score"])[..., None]
    contexts = []
    for query, of_step in zip(queries, weights, strict=True):
        context = sum(w * v for w, v in zip(of_step, values, strict=True))
        if gate is Leak:  # Chen, Sun and Liu 2021
            context = context + (1 - sum(of_step)) * p["gate"]["v"]
        if gate is Elementwise:  # Qiu et al. 2025, equation 5
            logits = oracle.matvec(p["gate"]["W"], query)
            context = context * [oracle.sigmoid(z) for z in logits]
        if gate is Headwise:
            context = context * oracle.sigmoid(sum(p["gate"]["w"] * query))
        if gate is RmsNorm:  # Zhang, Titov and Sennrich 2021, equation 5
            root = np.sqrt(sum(c * c for c in context) / len(context))
            context = p["gate"]["g"] * context / root
        contexts.append(context)
    return np.array(contexts), weights.mean(axis=-1)


def step_by_step(mechanism, p, queries, annotations, embeddings):
    sentence, memory = begin(mechanism, p, annotations, MASK, embeddings=embeddings)
    found = []
    for query in queries:
        memory, *of_step = attend_step(mechanism, p, sentence, memory, query)
        found.append(of_step)
    return tuple(jnp.stack(each) for each in zip(*found, strict=True))


@every
def test_equals_the_papers_loop_at_once_and_step_by_step(mechanism, generator):
    inputs = drawn(mechanism, generator)
    expected = loop(mechanism, *inputs)
    inputs = jax.tree.map(jnp.float32, inputs)
    p, queries, annotations, embeddings = inputs
    at_once = attend_all(mechanism, p, queries, annotations, MASK, embeddings=embeddings)
    for found in (at_once, step_by_step(mechanism, *inputs)):
        np.testing.assert_allclose(found[1], expected[1], atol=1e-5)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    first, _ = attend(mechanism, p, queries[0], annotations, MASK, embeddings=embeddings)
    np.testing.assert_allclose(first, expected[0][0], rtol=1e-4, atol=1e-5)


@every
def test_half_precision_is_close(mechanism, generator):
    inputs = drawn(mechanism, generator)

    def made(dtype):
        p, queries, annotations, embeddings = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.bfloat16).astype(dtype), inputs
        )
        return attend_all(mechanism, p, queries / 4, annotations, MASK, embeddings=embeddings)

    (short, weights), (wide, _) = made(jnp.bfloat16), made(jnp.float32)
    assert (short.dtype, weights.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_allclose(np.float32(short), wide, atol=0.1 * np.abs(wide).max())


class Repeats(Score):
    """Reads the sum of the values, before the gate."""

    reads = "context"

    def score(self, p, query, keys, past):
        assert past.context.shape == (E,)
        return jnp.full(keys.shape[0], past.context.sum())


def test_the_context_of_the_past_has_the_size_of_values_and_no_gate(generator):
    mechanism = Mechanism(Repeats(), values=Embeddings(), gate=Elementwise())
    p, queries, annotations, embeddings = jax.tree.map(jnp.float32, drawn(mechanism, generator))
    sentence, memory = begin(mechanism, p, annotations, embeddings=embeddings)
    memory, context, weights = attend_step(mechanism, p, sentence, memory, queries[0])
    np.testing.assert_allclose(memory.context, weights @ embeddings, rtol=1e-5)
    assert np.all(np.abs(context) < np.abs(memory.context))


def test_a_sum_of_vectors_of_one_size_has_no_parameters(generator):
    assert Mechanism(General(), values=Sum()).init(jax.random.key(0), Q, D, D)["values"] == {}
    mechanism = Mechanism(Mean(), values=Sum())
    p, queries, annotations, embeddings = drawn(mechanism, generator, size=D)
    found, _ = attend(mechanism, p, queries[0], annotations, embeddings=embeddings)
    mean = (annotations + embeddings).mean(axis=0)
    np.testing.assert_allclose(found, np.sqrt(S) * mean, rtol=1e-5)


def test_values_that_are_given_may_have_a_gate_of_their_size(generator):
    mechanism = Mechanism(General(), gate=Elementwise())
    p = mechanism.init(jax.random.key(0), Q, D, C=2)
    queries, annotations, values = (generator.normal(size=n) for n in ((T, Q), (S, D), (S, 2)))
    contexts, weights = attend_all(mechanism, p, queries, annotations, values=values)
    gates = 1 / (1 + np.exp(-queries @ p["gate"]["W"]))
    np.testing.assert_allclose(contexts, weights @ values * gates, rtol=1e-4)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_batch_axes_come_first_also_in_word_vectors(generator, batch):
    mechanism = Mechanism(General(), values=Sum(), gate=Headwise())
    p, *_ = drawn(mechanism, generator)
    sizes = (*batch, T, Q), (*batch, S, D), (*batch, S, E)
    queries, annotations, embeddings = (generator.normal(size=size) for size in sizes)
    contexts, _ = attend_all(mechanism, p, queries, annotations, embeddings=embeddings)
    for place in np.ndindex(batch):
        one, _ = attend_all(
            mechanism, p, queries[place], annotations[place], embeddings=embeddings[place]
        )
        np.testing.assert_allclose(contexts[place], one, rtol=1e-5)


class Short(Gate):
    def gate(self, p, state, context):
        return context[1:]


class Forgets(Values):
    def values(self, p, annotations, embeddings, mask):
        return embeddings


def ones(*shape):
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("attended", "message"),
    [
        (
            lambda: attend(Mechanism(Dot(), values=Embeddings()), {}, ones(2), ones(S, 2)),
            "embeddings are made of word vectors: give `embeddings`",
        ),
        (
            lambda: Mechanism(Dot(), values=Sum()).init(jax.random.key(0), 2, 2),
            "sum are made of word vectors: give E, their size",
        ),
        (
            lambda: Mechanism(Dot(), values=KeyValue()).init(jax.random.key(0), 2, 5),
            "features must be even in number, got 5",
        ),
        (
            lambda: Mechanism(Dot(), values=KeyValue()).init(jax.random.key(0), 4, 4),
            "compares queries and annotations of one size, got 4 and 2",
        ),
        (
            lambda: attend(
                Mechanism(Mean(), values=KeyValue()), {}, ones(2), ones(S, 2), values=ones(S, 2)
            ),
            "makes the values key_value itself: leave out `values`",
        ),
        (
            lambda: attend(Mean(), {}, ones(2), ones(S, 2), embeddings=ones(S - 1, 2)),
            r"embeddings must be of \[7\] positions, like the annotations, got \[6, 2\]",
        ),
        (
            lambda: attend(
                Mechanism(Dot(), gate=Short()),
                {"score": {}, "window": {}, "normalizer": {}},
                ones(2),
                ones(S, 2),
            ),
            r"the gate .*Short gives shape \[1\] for a context of 2 features",
        ),
        (lambda: Mechanism(Dot(), gate=Elementwise), r"a Gate, got .*: write Elementwise\(\)"),
        (lambda: Mechanism(Dot(), values=len), "the values must be a Values, got <built-in"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(attended, message):
    with pytest.raises(InputError, match=message) as raised:
        attended()
    assert "\n" not in str(raised.value)
