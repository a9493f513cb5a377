"""The module for decoders of others: as Flax's own, with any mechanism, in Linen too."""

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from attn_jax import Mechanism
from attn_jax.attention import Additive, Forward, General, ScaledDot, TalkingHeads
from attn_jax.errors import InputError
from attn_jax.nn import CrossAttention

MASK = np.arange(7) < np.array([7, 5, 1])[:, None]


@pytest.fixture
def inputs(generator):
    queries, annotations = generator.normal(size=(3, 5, 16)), generator.normal(size=(3, 7, 12))
    return jnp.asarray(queries, jnp.float32), jnp.asarray(annotations, jnp.float32)


def test_equals_that_of_flax(inputs):
    sizes = {"qkv_features": 24, "out_features": 10, "in_kv_features": 12}
    theirs = nnx.MultiHeadAttention(4, 16, **sizes, decode=False, rngs=nnx.Rngs(0))
    ours = CrossAttention(4, 16, **sizes, rngs=nnx.Rngs(1))
    maps = ours.attention.projections
    pairs = zip(
        (maps.queries, maps.keys, maps.values, maps.output),
        (theirs.query, theirs.key, theirs.value, theirs.out),
        strict=True,
    )
    for one, other in pairs:
        one.kernel[...] = other.kernel[...].reshape(one.kernel.shape)
        one.bias[...] = np.arange(one.bias.size) / 10
        other.bias[...] = one.bias[...].reshape(other.bias.shape)
    results = [
        nnx.capture(one, nnx.Intermediate)(*inputs, mask=MASK[:, None, None], sow_weights=True)
        for one in (theirs, ours)
    ]
    (expected, of_theirs), (found, sown) = results
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    (weights,), (others,) = map(jax.tree.leaves, (sown, of_theirs))
    np.testing.assert_allclose(weights, others, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": Additive(units=8)},
        {"mechanism": Mechanism(General(), normalizer=Forward()), "num_key_value_heads": 2},
        {"mechanism": ScaledDot(), "mixing": TalkingHeads(), "use_bias": False},
    ],
    ids=["additive", "forward", "talking"],
)
def test_steps_equal_all_at_once(inputs, options):
    queries, annotations = inputs
    module = CrossAttention(4, 16, in_kv_features=12, **options, rngs=nnx.Rngs(1))
    outputs, weights = nnx.jit(CrossAttention.attend)(module, queries, annotations, mask=MASK)
    assert outputs.shape == queries.shape
    assert weights.shape == (3, 4, 5, 7)
    decoding, step = module.begin(annotations, mask=MASK), nnx.jit(CrossAttention.step)
    for t in range(5):
        decoding, output, of_step = step(module, decoding, queries[:, t])
        np.testing.assert_allclose(output, outputs[:, t], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(of_step, weights[:, :, t], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mechanism", [ScaledDot(), Additive(units=8)], ids=["dot", "additive"])
def test_an_optimizer_of_nnx_trains_it(inputs, mechanism):
    module = CrossAttention(4, 16, in_kv_features=12, mechanism=mechanism, rngs=nnx.Rngs(1))
    optimizer = nnx.Optimizer(module, optax.adam(0.01), wrt=nnx.Param)

    @nnx.jit
    def step(module, optimizer):
        loss, gradient = nnx.value_and_grad(lambda module: (module(*inputs) ** 2).sum())(module)
        optimizer.update(module, gradient)
        return loss

    losses = [float(step(module, optimizer)) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


def test_the_bridge_to_linen_takes_it(inputs):
    layer = nnx.bridge.to_linen(
        CrossAttention, 4, 16, in_kv_features=12, mechanism=Additive(units=8)
    )
    variables = layer.init(jax.random.key(0), *inputs)
    assert layer.apply(variables, *inputs).shape == inputs[0].shape


def test_in_linen_it_is_a_parameter(inputs):
    class Block(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, queries, annotations):
            def init(rng):
                return CrossAttention(4, 16, in_kv_features=12, rngs=nnx.Rngs(rng))

            return self.param("attention", init)(queries, annotations)

    variables = Block().init(jax.random.key(0), *inputs)
    gradient = jax.jit(jax.grad(lambda v: Block().apply(v, *inputs).sum()))(variables)
    assert jax.tree.structure(gradient) == jax.tree.structure(variables)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(gradient))


def test_refuses_what_does_not_fit(inputs):
    with pytest.raises(InputError, match="num_heads=3 does not divide the 16 qkv_features"):
        CrossAttention(3, 16, rngs=nnx.Rngs(0))
    module = CrossAttention(4, 16, in_kv_features=12, rngs=nnx.Rngs(0))
    with pytest.raises(InputError, match="the same for all queries, got"):
        module(*inputs, mask=np.ones((3, 1, 5, 7), bool))
