"""How parts are named, combined and refused."""

import sys
import types
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attn_jax.attention.context import (
    _check_keys,
    _mask,
    _query,
    _sentence,
    attend_all,
    attend_step,
    begin,
)
from attn_jax.attention.parts import Part, Sizes
from jax.sharding import PartitionSpec as P

from attn_jax import InputError, attend, part
from attn_jax.attention import monotonic, normalizers, scores, sparse
from attn_jax.attention.catalogue import mechanism, resolve

SIZES = Sizes(5, 11, 3)


def test_settings_are_read_from_the_name():
    found = resolve("normalizer", "entmax(alpha=1.25)")
    assert found == Part(sparse.entmax, (("alpha", 1.25),))
    assert hash(found) == hash(resolve("normalizer", " entmax( alpha = 1.25 ) "))
    assert resolve("score", "location_aware(width=3, filters=2)").shapes(SIZES)["F"] == (3, 2)
    assert resolve("score", "location_aware").settings == {"filters": 10, "width": 11}
    assert resolve("score", "coverage").settings == {"fertility": 2.0}


def test_the_normalizer_that_belongs_to_a_score():
    for score, normalizer in (("additive", "softmax"), ("gmm", "exponential")):
        assert mechanism(score).normalizer == resolve("normalizer", normalizer)


def test_two_scores_carry_nothing_on():
    def own(query, keys, *, carry):
        return keys @ query, carry

    part(start=jnp.zeros_like)(own)
    mechanism(own)
    with pytest.raises(InputError, match="'mocha' uses two scores"):
        mechanism(own, normalizer="mocha")


def test_what_a_partial_binds_is_no_parameter_and_holds_in_decoding():
    assert Part(partial(normalizers.null, n=3.0)).shapes(SIZES) == {}
    wide = Part(partial(monotonic.mocha, chunk=5, noise=0.5))
    assert wide.decoding.settings == {"chunk": 5}
    assert wide.decoding.shapes(SIZES) == {"r": ()}
    narrow = resolve("normalizer", "mocha(chunk=2)")
    assert narrow.decoding.settings["chunk"] == 2


@pytest.mark.parametrize(
    ("score", "window", "normalizer", "looks_back"),
    [
        ("additive", "full", "softmax", False),
        ("location", "local_p", "entmax", False),
        ("coverage", "full", "softmax", True),
        ("gmm", "full", "auto", True),
        ("dot", "local_m", "softmax", False),
        ("relative", "full", "softmax", False),
        ("dot", "full", "mocha", True),
    ],
)
def test_what_looks_back(score, window, normalizer, looks_back):
    assert mechanism(score, window, normalizer).looks_back == looks_back


def test_a_plain_function_is_a_part():
    def mine(query, keys):
        return keys.sum(axis=1)

    annotations = jnp.ones((7, 3))
    assert Part(mine).shapes(SIZES) == {}
    np.testing.assert_array_equal(Part(mine).keys(annotations, {}), annotations)
    _, weights = attend(jnp.ones(2), annotations, annotations, score=mine)
    np.testing.assert_allclose(weights, np.full(7, 1 / 7), rtol=1e-6)


def test_a_part_of_ones_own_may_look_back_and_have_settings(monkeypatch):
    module = types.ModuleType("my_parts")

    @part(shapes=lambda sizes, *, units=2: {"W": (sizes.Q, units)}, initial={"W": 1.0})
    def repelled(query, keys, *, memory, W, strength=3.0):
        return keys @ (query @ W) - strength * memory.total

    module.repelled = repelled
    monkeypatch.setitem(sys.modules, "my_parts", module)
    found = resolve("score", "my_parts:repelled(units=4, strength=1)")
    assert found.looks_back
    assert found.shapes(SIZES) == {"W": (5, 4)}
    assert found.bound({}).keywords == {"strength": 1.0}


def test_a_setting_is_of_the_function_and_not_of_its_start_alone(monkeypatch):
    """Otherwise, a model, which binds what the function names, would start without the setting."""
    module = types.ModuleType("my_parts")

    @part(start=lambda mask, *, first=0.5: mask * first)
    def kept(scores, mask, *, carry):
        return carry, carry

    module.kept = kept
    monkeypatch.setitem(sys.modules, "my_parts", module)
    with pytest.raises(InputError, match="has no settings, got 'first'"):
        resolve("normalizer", "my_parts:kept(first=1.0)")


def test_a_window_gives_a_support_and_a_gain():
    keys = jnp.ones((3, 2))

    def everywhere(query, mask):
        return mask

    with pytest.raises(InputError, match="the window everywhere must return two arrays"):
        attend(keys[0], keys, keys, score="dot", window=everywhere)


def test_parts_return_arrays_of_the_sentence():
    keys = jnp.ones((3, 2))

    def soft(query, mask):
        return mask.astype(float), 1.0

    def column(query, mask):
        return mask, jnp.ones((mask.size, 1))

    def summed(scores, mask):
        return scores.sum()

    def equal(scores, mask):
        return mask

    def forgotten(query, keys):
        keys @ query

    with pytest.raises(InputError, match=r"forgotten gives None \(without a return\)"):
        attend(keys[0], keys, keys, score=forgotten)
    with pytest.raises(InputError, match=r"support of the window soft must be bool \[3\].*float32"):
        attend(keys[0], keys, keys, score="dot", window=soft)
    with pytest.raises(
        InputError, match=r"column gives shape \[3, 1\] for the gain of 3 positions"
    ):
        attend(keys[0], keys, keys, score="dot", window=column)
    with pytest.raises(InputError, match=r"summed gives shape \[\] for the weights of 3 positions"):
        attend(keys[0], keys, keys, score="dot", normalizer=summed)
    with pytest.raises(InputError, match=r"equal gives weights of bool, not floating-point"):
        attend(keys[0], keys, keys, score="dot", normalizer=equal)


def test_scores_are_summed_in_float32_at_least():
    query, keys = jnp.ones(2, jnp.bfloat16), jnp.ones((3, 2), jnp.bfloat16)
    assert scores.dot(query, keys).dtype == jnp.float32
    assert scores.additive(query, keys, W=keys[:2], v=query).dtype == jnp.float32


@pytest.mark.parametrize("normalizer", ["forward", "entmax(alpha=1.25)"])
def test_loops_run_under_shard_map(normalizer):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "b")
    read = jax.vmap(partial(attend_all, score="dot", normalizer=normalizer))
    shared = jax.shard_map(read, mesh=mesh, in_specs=P("b"), out_specs=P("b"))
    arrays = jnp.ones((2, 4, 3)), jnp.ones((2, 5, 3)), jnp.ones((2, 5, 3))
    for one, other in zip(jax.jit(shared)(*arrays), read(*arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_arguments_bound_before_are_kept():
    query, annotations = jnp.ones(2), jnp.arange(6.0).reshape(3, 2)
    W, U, v = jnp.ones((2, 1)), jnp.ones((2, 1)) / 9, jnp.ones(1)
    keys = resolve("score", "additive").keys(annotations, {"U": U})
    _, weights = attend(
        query,
        keys,
        annotations,
        score=partial(scores.additive, W=W, v=v),
        normalizer=partial(sparse.entmax, alpha=2.0),
    )
    raw = scores.additive(query, keys, W=W, v=v)
    np.testing.assert_allclose(weights, sparse.sparsemax(raw, jnp.ones(3, bool)), rtol=1e-6)


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("score", "bilinear", r"unknown score 'bilinear'.*; allowed: additive, dot,"),
        ("window", "local", r"unknown window 'local'.*allowed: full, local_m, local_p"),
        ("normalizer", "sparse_max", "did you mean sparsemax"),
        ("score", "scaled-dot", "did you mean scaled_dot"),
        ("normalizer", "entmax(beta=2)", "unknown setting of entmax 'beta'; allowed: alpha"),
        ("normalizer", "entmax(alpha=x)", "alpha must be of type float, got 'x'"),
        ("normalizer", "entmax(alpha", "malformed normalizer"),
        ("normalizer", "entmax(alpha=1.5, alpha=2)", "gives alpha twice"),
        ("score", "additive(width=3)", "additive has no settings, got 'width'"),
        ("score", "my_score.py:f", r"write module:name, without \.py"),
        (
            "score",
            "no_such_module:f",
            "cannot use 'no_such_module:f' as a score: No module named 'no_such_module'; Python "
            "looks for it on PYTHONPATH, and last in the current folder",
        ),
        ("score", "math:no_such_function", "cannot use"),
        ("score", "math:pi", "not a function"),
    ],
)
def test_refuses_what_does_not_exist(what, name, message):
    with pytest.raises(InputError, match=message):
        resolve(what, name)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"score": "general"}, r"the score general has parameters \(W\): pass the function"),
        (
            {"score": "additive"},
            r"the score additive has parameters \(W, U, v\): pass the function, with W, v bound by "
            r"functools.partial, and the keys that its keys\(annotations, U=…\) makes",
        ),
        ({"score": scores.additive}, r"the score additive has parameters \(W, v\)"),
        ({"score": "gmm"}, r"the score gmm has parameters \(W, b\)"),
        ({"score": "dot", "window": "local_p"}, "the window local_p has parameters"),
        ({"score": "dot", "normalizer": "monotonic"}, r"normalizer monotonic has .* \(r\)"),
        ({"score": partial(scores.additive, U=1)}, "additive takes W, v, and is bound to U"),
    ],
)
def test_parameters_must_be_bound(parts, message):
    arrays = jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2))
    with pytest.raises(InputError, match=message):
        attend(*arrays, **parts)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (jnp.ones(2, bool), "the mask is of 2 positions, the values are of 3"),
        (jnp.ones(3), "the mask must be bool, got float32"),
        (jnp.ones((3, 3), bool), r"the mask must be \[S\] of one sentence .*, got \[3, 3\]"),
    ],
)
def test_a_mask_must_fit(mask, message):
    # Not `attend`: in tests, shapes are checked by its signature before its own check runs.
    with pytest.raises(InputError, match=message):
        _sentence(jnp.ones((3, 2)), mask)


@pytest.mark.parametrize("shape", [(3,), (3, 2, 1)])
def test_values_are_of_a_sentence(shape):
    with pytest.raises(InputError, match=r"the values must be \[S, D\] of one sentence"):
        _sentence(jnp.ones(shape), None)


def test_a_sentence_has_a_position():
    with pytest.raises(InputError, match="a sentence has at least one"):
        _sentence(jnp.ones((0, 2)), None)


def test_a_query_has_one_axis():
    with pytest.raises(InputError, match=r"query \(attend_all takes several\) must be \[Q\] of"):
        _query(jnp.ones((3, 2)))


def test_what_looks_back_needs_a_memory():
    arrays = jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2))
    with pytest.raises(InputError, match="at the first step, what `begin` returns"):
        attend_step(None, *arrays, jnp.ones(3, bool), score="dot", normalizer="forward")


def test_a_memory_is_of_the_same_sentence():
    mechanism = {"score": "dot", "normalizer": "forward"}
    arrays = jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2))
    with pytest.raises(InputError, match="a sentence of 4 positions, the mask of one of 3"):
        attend_step(begin(jnp.ones(4, bool), **mechanism), *arrays, **mechanism)
    with pytest.raises(InputError, match="the mask must be bool, got float32"):
        _mask(jnp.ones(4))


def test_a_part_with_a_carry_returns_the_next():
    @part(start=jnp.zeros_like)
    def own(query, keys, *, carry):
        return keys @ query

    with pytest.raises(InputError, match="score own has a carry: it must return its result and"):
        attend(jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2)), score=own)


def test_a_start_gets_the_settings_of_its_part():
    def first(mask, *, rate, other=3.0):
        return jnp.full(mask.shape, rate)

    @part(start=first)
    def own(query, keys, *, carry, rate=0.5):
        return carry, carry

    for name, wanted in ((own, 0.5), (partial(own, rate=0.25), 0.25)):
        memory = begin(jnp.ones(3, bool), score=name)
        np.testing.assert_array_equal(memory.carries["score"], wanted)

    def trap(mask, *, rate=0.9):
        return jnp.full(mask.shape, rate)

    part(start=trap)(own)
    assert begin(jnp.ones(3, bool), score=own).carries["score"][0] == 0.5


def test_keys_are_arrays():
    with pytest.raises(InputError, match="the keys must be arrays, got float among them"):
        _check_keys([[1.0, 2.0], [3.0, 4.0]])


def test_a_carry_has_a_start():
    def own(query, keys, *, carry):
        return keys @ query, carry

    def other(query, keys):
        return keys @ query

    part(start=jnp.zeros_like)(other)
    with pytest.raises(InputError, match=r"own takes a carry and has no start: attn_jax\.part\("):
        mechanism(own)
    with pytest.raises(InputError, match="other has a start and takes no carry"):
        mechanism(other)


def test_a_builtin_does_not_tell_its_arguments():
    arrays = jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2))
    with pytest.raises(InputError, match="max has no signature"):
        attend(*arrays, score=max)


def test_halves_of_large_numbers_have_a_temperature():
    scores = jnp.array([33_000, 0], jnp.float16)
    weights = normalizers.temperature(scores, jnp.ones(2, bool), tau=0.5)
    assert weights.dtype == scores.dtype
    np.testing.assert_array_equal(weights, [1, 0])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("last", "full", "sparsemax"), "'mean' and 'last' have fixed weights"),
        (("mean", "local_m", "softmax"), "'mean' and 'last' have fixed weights"),
        (("additive", "full", "exponential"), "which only 'gmm' returns"),
        (("gmm", "full", "monotonic"), "takes no monotonic normalizer"),
        (("additive", "local_p", "mocha"), "takes no window"),
        (("gmm", "local_m", "auto"), "already acts as a window"),
    ],
)
def test_refuses_what_makes_no_sense_together(names, message):
    with pytest.raises(InputError, match=message):
        mechanism(*names)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("dot", "full", "entmax(alpha=1)"), "alpha must be from 1.0001"),
        (("dot", "full", "entmax(alpha=4)"), "to 3, got 4"),
        (("dot", "full", "temperature(tau=0)"), "tau must be more than 0"),
        (("dot", "full", "mocha(chunk=0)"), "chunk must be at least 1"),
        (("dot", "local_m(half_width=0)", "softmax"), "half_width must be at least 1"),
    ],
)
def test_refuses_settings_out_of_bounds(names, message):
    score, window, normalizer = names
    if "mocha" in normalizer:
        score = lambda query, keys: jnp.stack([keys @ query] * 2)  # noqa: E731
        normalizer = partial(resolve("normalizer", normalizer).bound({}), r=jnp.zeros(()))
    with pytest.raises(InputError, match=message):
        attend(
            jnp.ones(2),
            jnp.ones((3, 2)),
            jnp.ones((3, 2)),
            score=score,
            window=window,
            normalizer=normalizer,
        )


def test_refuses_a_score_of_another_shape():
    arrays = jnp.ones(2), jnp.ones((3, 2)), jnp.ones((3, 2))
    with pytest.raises(InputError, match=r"gives shape \[3, 2\], but .* softmax takes \[3\]"):
        attend(*arrays, score=lambda query, keys: keys)
    mocha = partial(resolve("normalizer", "mocha").function, r=jnp.zeros(()))
    with pytest.raises(InputError, match=r"dot gives shape \[3\], but .* mocha takes \[2, 3\]"):
        attend(*arrays, score="dot", normalizer=mocha)

    @part(factored=(lambda query: query, lambda projected, keys: keys))
    def wide(query, keys):
        return keys

    with pytest.raises(InputError, match=r"wide gives shape \[3, 2\], but .* softmax takes \[3\]"):
        attend_all(jnp.ones((4, 2)), *arrays[1:], score=wide)


@pytest.mark.parametrize(
    "name", ["relative(distance=0)", "location_aware(width=0)", "gmm(components=0)"]
)
def test_refuses_shapes_out_of_bounds(name):
    with pytest.raises(InputError, match="must be at least 1"):
        resolve("score", name).shapes(Sizes(5, 5, 3))


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "relative"])
def test_dot_refuses_different_sizes(name):
    with pytest.raises(InputError, match="Q=5 and D=11"):
        resolve("score", name).shapes(SIZES)
