"""What parts read of earlier steps, and states of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from attn_jax import (
    InputError,
    Mechanism,
    Normalizer,
    Score,
    Window,
    attend,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.attention.compositions import Pair, Projected
from attn_jax.attention.moving_scores import Gmm
from attn_jax.attention.offset_scores import HardCoded
from attn_jax.attention.past import CARRIED, NotRead, Past
from attn_jax.attention.position_scores import Coverage
from attn_jax.attention.scores import Dot, General
from attn_jax.attention.windows import LocalM
from attn_jax.config import Model
from attn_jax.config.reading import read
from attn_jax.models.attention import Attention
from tests.attention.cases import as_arrays, parameters
from tests.drawn import drawn as drawn_model
from tests.drawn import encoded

T, S, Q, C = 5, 7, 3, 3


class Recalling(Score):
    """(s + c_{i-1}) · h_j, c_{i-1} the last context."""

    reads = ("context",)

    def score(self, p, query, keys, past):
        return keys @ (query + past.context)


class Fading(Score):
    """s · h_j - a Σ_{k<i} α_kj / i: what was read is read less."""

    strength: float = 3.0
    reads = ("total", "step")

    def score(self, p, query, keys, past):
        return keys @ query - self.strength * past.total / (past.step + 1)


class Annealed(Normalizer):
    """softmax((1 + t) e), t the number of training steps done."""

    reads = ("train_step",)

    def weights(self, p, scores, mask, past):
        return jax.nn.softmax((1 + past.train_step) * scores, where=mask)


class Sweep(Window):
    """Position i and the next: a window with a state of its own, where it is."""

    def start(self, p, mask):
        return jnp.asarray(-1)

    def advance(self, p, query, past):
        return past.own + 1

    def bias(self, p, query, past):
        distance = jnp.arange(past.mask.size) - past.own
        return jnp.where((distance >= 0) & (distance <= 1), 0.0, -jnp.inf)

    def gain(self, p, query, past):
        return jnp.full(past.mask.shape, 1.0 / (1 + past.own))


class Lazy(Normalizer):
    """b_i = σ(r) b_{i-1} + (1 - σ(r)) softmax(e_i): a state that is the weights."""

    def init(self, rng, Q, D):
        return {"r": jnp.zeros(())}

    def start(self, p, mask):
        return jnp.zeros(mask.shape)

    def advance(self, p, scores, mask, past):
        kept = jax.nn.sigmoid(p["r"])
        return kept * past.own + (1 - kept) * jax.nn.softmax(scores, where=mask)

    def weights(self, p, scores, mask, past):
        return past.own


class Drifting(Score):
    """s · h_j + d · h_j, d = Σ_{k≤i} W s_k: a state in two arrays, with parameters."""

    def init(self, rng, Q, D):
        return {"W": jnp.zeros((Q, D))}

    def start(self, p, mask):
        return {"d": jnp.zeros(p["W"].shape[1]), "step": jnp.asarray(0)}

    def advance(self, p, query, keys, past):
        return {"d": past.own["d"] + query @ p["W"], "step": past.own["step"] + 1}

    def score(self, p, query, keys, past):
        return keys @ (query + past.own["d"])


def drawn(generator, mechanism):
    queries, annotations = generator.normal(size=(T, Q)), generator.normal(size=(S, Q))
    return parameters(generator, mechanism, Q, Q), queries, annotations


def test_each_head_of_a_model_knows_its_number(generator):
    score = HardCoded(offsets=(0, 1, 2, 3), sigma=0.1)
    config = Model(score=score, heads=4, key_value_heads=2, head_size=5)
    attention = Attention(config, Q, C, projection="linear", rngs=nnx.Rngs(0))
    mask = jnp.ones((1, S), bool)
    source = attention.project(encoded(generator.normal(size=(1, S, C)), mask))
    _, weights = attention(jnp.zeros((1, 2, Q)), source, mask)
    np.testing.assert_array_equal(weights[0].argmax(-1), np.arange(4)[:, None] + np.arange(2))


class OfLayer(Score):
    """-(j - l)², l the layer."""

    reads = ("layer",)

    def score(self, p, query, keys, past):
        return -((jnp.arange(len(keys)) - past.layer) ** 2.0)


def test_each_layer_of_a_decoder_knows_its_number():
    sizes = {"embedding_size": 4, "annotation_size": 4, "hidden_size": 4, "feedforward_size": 2}
    config = Model(decoder="transformer", decoder_layers=3, score=OfLayer(), **sizes)
    model = drawn_model(config, 9, 9)
    weights = model.read(jnp.array([[4, 5, 6, 7]]), jnp.array([[4, 5]])).weights
    np.testing.assert_array_equal(weights[0, :, 0].argmax(-1), [[0, 0], [1, 1], [2, 2]])


MASK = jnp.arange(S) != 2
OWN = [
    Mechanism(Recalling()),
    Mechanism(Fading()),
    Mechanism(Fading(strength=1), LocalM(half_width=2)),
    Mechanism(Dot(), Sweep()),
    Mechanism(Dot(), normalizer=Lazy()),
    Mechanism(Drifting()),
    Mechanism(Drifting(), Sweep(), Lazy()),
    Mechanism(Projected(Fading(), units=2)),
]


def softmax(scores):
    powers = np.where(MASK, np.exp(scores), 0)
    return powers / powers.sum()


def test_the_last_context_is_what_was_summed(generator):
    _, queries, annotations = drawn(generator, Recalling())
    values, context = generator.normal(size=(S, C)), np.zeros(C)
    given = as_arrays((queries, annotations, values))
    contexts, alignment = attend_all(Recalling(), {}, *given[:2], MASK, values=given[2])
    for step, query in enumerate(queries):
        weights = softmax(annotations @ (query + context))
        context = weights @ values
        np.testing.assert_allclose(alignment[step], weights, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(contexts[step], context, rtol=1e-5, atol=1e-6)


def test_the_total_and_the_step_are_those_of_earlier_steps(generator):
    _, queries, annotations = drawn(generator, Fading())
    _, alignment = attend_all(Fading(), {}, *as_arrays((queries, annotations)), MASK)
    total = np.zeros(S)
    for step, query in enumerate(queries):
        weights = softmax(annotations @ query - 3 * total / (step + 1))
        total += weights
        np.testing.assert_allclose(alignment[step], weights, rtol=1e-5, atol=1e-6)


def test_a_state_has_moved_before_it_is_read(generator):
    p, queries, annotations = drawn(generator, Mechanism(Drifting(), normalizer=Lazy()))
    inputs = as_arrays((p, queries, annotations))
    _, alignment = attend_all(Mechanism(Drifting(), normalizer=Lazy()), *inputs, MASK)
    drift, weights = np.zeros(Q), np.zeros(S)
    kept = 1 / (1 + np.exp(-p["normalizer"]["r"]))
    for step, query in enumerate(queries):
        drift = drift + query @ p["score"]["W"]
        weights = kept * weights + (1 - kept) * softmax(annotations @ (query + drift))
        np.testing.assert_allclose(alignment[step], weights, rtol=1e-5, atol=1e-6)


def test_the_gain_of_a_window_sees_its_state(generator):
    mechanism = Mechanism(Dot(), Sweep())
    p, queries, annotations = as_arrays(drawn(generator, mechanism))
    _, alignment = attend_all(mechanism, p, queries, annotations)
    for step, weights in enumerate(alignment):
        np.testing.assert_array_equal(np.flatnonzero(weights), [step, step + 1])
        np.testing.assert_allclose(weights.sum(), 1 / (1 + step), rtol=1e-6)


def test_only_what_is_read_is_carried():
    def first(mechanism):
        p = Mechanism(mechanism).init(jax.random.key(0), Q, Q)
        return begin(Mechanism(mechanism), p, jnp.ones((S, Q)))[1]

    assert not jax.tree.leaves(first(General()))
    assert {name for name in CARRIED if getattr(first(Fading()), name) is not None} == {
        "total",
        "step",
    }
    np.testing.assert_array_equal(first(Recalling()).context, np.zeros(Q))
    np.testing.assert_array_equal(first(Fading()).total, np.zeros(S))


@pytest.mark.parametrize("name", CARRIED)
def test_reading_what_is_not_declared_raises(name):
    class Careless(Score):
        def score(self, p, query, keys, past):
            return keys @ query + getattr(past, name).sum()

    message = rf'Careless reads past\.{name}: give its class reads = \("{name}",\)'
    with pytest.raises(NotRead, match=message):
        attend(Careless(), {}, jnp.ones(2), jnp.ones((S, 2)))
    beside = Mechanism(
        Careless(), Everything()
    )  # also where another part of the mechanism reads it
    p = beside.init(jax.random.key(0), 2, 2)
    with pytest.raises(NotRead, match=message):
        attend(beside, p, jnp.ones(2), jnp.ones((S, 2)))


class Everything(Window):
    reads = CARRIED

    def bias(self, p, query, past):
        seen = past.step + past.weights + past.total + past.context.sum()
        return jnp.zeros(seen.shape)


def test_a_state_needs_a_start():
    class Careless(Window):
        def bias(self, p, query, past):
            return past.own

    mechanism = Mechanism(Dot(), Careless())
    p = mechanism.init(jax.random.key(0), 2, 2)
    with pytest.raises(NotRead, match=r"Careless reads past\.own: give its class a method `start`"):
        attend(mechanism, p, jnp.ones(2), jnp.ones((S, 2)))


def test_past_has_nothing_else():
    class Careless(Score):
        def score(self, p, query, keys, past):
            return past.future

    with pytest.raises(AttributeError, match="past has no 'future'"):
        attend(Careless(), {}, jnp.ones(2), jnp.ones((S, 2)))


@pytest.mark.parametrize("reader", [Mechanism(Recalling()), Mechanism(Coverage(units=2))])
def test_memories_are_as_precise_as_numbers_by_default(reader):
    with jax.enable_x64(True):
        p = reader.init(jax.random.key(0), 2, 2)
        _, memory = begin(reader, p, jnp.ones((S, 2)))
        carried = (memory.context, memory.total)
        assert {one.dtype for one in carried if one is not None} == {jnp.dtype("float64")}


@pytest.mark.parametrize("normalizer", ["softmax", "forward", "entmax(alpha=1.25)", "mocha"])
def test_loops_run_under_shard_map(normalizer):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "b")
    mechanism = Mechanism(Fading(), normalizer=read(Normalizer, normalizer))
    p = mechanism.init(jax.random.key(0), 3, 3)

    def attended(*arrays):
        return attend_all(mechanism, p, *arrays)

    shared = jax.shard_map(attended, mesh=mesh, in_specs=P("b"), out_specs=P("b"))
    arrays = jnp.ones((2, 4, 3)), jnp.ones((2, 5, 3))
    for one, other in zip(jax.jit(shared)(*arrays), attended(*arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize(
    ("mechanism", "looks_back"),
    [
        (Mechanism(read(Score, "additive")), False),
        (Mechanism(read(Score, "location"), read(Window, "local_p")), False),
        (Mechanism(Coverage()), True),
        (Mechanism(Gmm()), True),
        (Mechanism(Dot(), LocalM()), False),
        (Mechanism(read(Score, "relative")), False),
        (Mechanism(Dot(), normalizer=read(Normalizer, "mocha")), True),
        (Mechanism(Projected(Coverage())), True),
        (Mechanism(Dot(), Everything()), True),
    ],
    ids=str,
)
def test_what_looks_back(mechanism, looks_back):
    """The number of a step is known without the steps before it."""
    assert mechanism.looks_back == looks_back


@pytest.mark.parametrize("score", [Dot(), Fading()])
def test_a_part_may_change_with_the_number_of_training_steps(score, generator):
    queries, annotations = as_arrays((generator.normal(size=(T, Q)), generator.normal(size=(S, C))))
    annealed, plain = Mechanism(score, normalizer=Annealed()), Mechanism(score)
    assert Mechanism(Dot(), normalizer=Annealed()).looks_back is False
    p = annealed.init(jax.random.key(0), Q, C)
    at_first = attend_all(annealed, p, queries, annotations)
    for one, other in zip(at_first, attend_all(plain, p, queries, annotations), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    later = attend_all(annealed, p, queries, annotations, train_step=jnp.asarray(3))[1]
    scores = 4 * np.float64(annotations @ queries[0])
    expected = np.exp(scores - scores.max())
    np.testing.assert_allclose(later[0], expected / expected.sum(), rtol=1e-5)
    sentence, memory = begin(annealed, p, annotations, train_step=3)
    for query, of_step in zip(queries, later, strict=True):
        memory, _, weights = attend_step(annealed, p, sentence, memory, query)
        np.testing.assert_allclose(weights, of_step, rtol=1e-5, atol=1e-7)


class Doubling(Drifting):
    """A state that changes its dtype."""

    def advance(self, p, query, keys, past):
        return super().advance(p, query, keys, past) | {"step": past.own["step"] + 0.5}


def test_a_state_that_changes_its_dtype_is_refused_with_the_name_of_its_part(generator):
    p, queries, annotations = as_arrays(drawn(generator, Mechanism(Doubling())))
    message = r"`advance` of .*:Doubling makes a state .*'int32\[\]'} into one .*'float32\[\]'}"
    with pytest.raises(InputError, match=message):
        attend_all(Mechanism(Doubling()), p, queries, annotations)


def test_parts_draw_independently_of_one_another():
    """Each part shows what it draws: no two are equal, and in use none draws."""
    seen = {}

    def shown(name, past):
        if past.rng is None:
            seen[name] = None
            return

        def note(*drawn):
            seen[name], seen[f"{name} split"] = map(float, drawn)

        split = jax.random.split(past.rng)[1]
        jax.debug.callback(note, jax.random.normal(past.rng), jax.random.normal(split))

    class Noisy(Score):
        name_: str = "first"

        def score(self, p, query, keys, past):
            shown(self.name_, past)
            return keys @ query

    class Near(Window):
        def bias(self, p, query, past):
            shown("window", past)
            return jnp.zeros(past.mask.shape)

    class Shares(Normalizer):
        scores = 2

        def weights(self, p, scores, mask, past):
            shown("normalizer", past)
            return jax.nn.softmax(scores[0], where=mask)

        def summed(self, weights, rng):
            shown("summed", Past(rng=rng))
            return weights

    pair = Pair(Noisy(), Noisy(name_="second"))
    mechanism = Mechanism(pair, Near(), Shares())
    query, annotations = jnp.ones(Q), jnp.ones((S, Q))
    p = mechanism.init(jax.random.key(1), Q, Q)
    attend(mechanism, p, query, annotations, rng=jax.random.key(2))
    jax.effects_barrier()
    assert len(set(seen.values())) == len(seen) == 10
    seen.clear()
    attend(mechanism, p, query, annotations)
    assert seen == dict.fromkeys(["first", "second", "window", "normalizer"])
