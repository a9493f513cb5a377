"""Outputs of PyTorch, Keras, entmax, x-transformers and JAX for the same inputs and parameters.

`make_answers.py` writes the files.
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attn_jax import Past, attend_all
from attn_jax.attention.offset_scores import Alibi, Buckets, Rotary
from attn_jax.attention.scores import Additive, ScaledDot
from attn_jax.attention.sparse_normalizers import sparse
from attn_jax.config import Model
from attn_jax.models.attention import Attention
from attn_jax.models.blocks import CrossAttention
from attn_jax.models.encoders import RecurrentEncoder
from attn_jax.models.transformer import DecoderBlock, EncoderBlock
from attn_jax.recipe.loss import total
from attn_jax.recipe.losses import ForwardSum
from attn_jax.tokens import EOS, PAD, Batch
from tests.drawn import encoded

close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


def answers(name):
    with np.load(Path(__file__).with_name(f"{name}.npz")) as file:
        return {key: jnp.asarray(value) for key, value in file.items()}


@partial(jax.jit, static_argnums=0)
def attended_by(score, p, peer, values):
    """The contexts and weights of a batch, with keys in place of annotations."""
    return attend_all(score, p, peer["query"], peer["keys"], peer["mask"], values=values)


def test_torch_scaled_dot_product_attention():
    peer = answers("scaled_dot")
    contexts, _ = attended_by(ScaledDot(), {}, peer, peer["values"])
    close(contexts, peer["output"])


def test_jax_dot_product_attention():
    peer = answers("scaled_dot")  # with keys as values, since JAX wants both to have one size
    query, keys, mask = peer["query"], peer["keys"], peer["mask"]
    contexts, _ = attended_by(ScaledDot(), {}, peer, keys)
    expected = jax.nn.dot_product_attention(
        query[:, :, None], keys[:, :, None], keys[:, :, None], mask=mask[:, None, None]
    )
    close(contexts, expected[:, :, 0])


def test_keras_additive_attention():
    peer = answers("additive")
    units = peer["v"].size
    p = {"W": jnp.eye(units), "U": jnp.eye(units), "v": peer["v"]}
    contexts, weights = attended_by(Additive(units=units), p, peer, peer["values"])
    close(contexts, peer["output"])
    close(weights, peer["weights"])


def scored_by(score, p, peer, **known):
    """The scores of all steps, [T, S]."""
    keys = score.keys(p, peer["keys"])

    def of_step(step, query):
        past = Past(mask=jnp.ones(len(keys), bool), rng=None, step=step, **known)
        return score.score(p, score.query(p, query), keys, past)

    return jax.jit(jax.vmap(of_step))(jnp.arange(len(keys)), peer["query"])


def test_scores_of_offsets_of_x_transformers():
    peer = answers("offsets")
    products = peer["query"] @ peer["keys"].T / peer["query"].shape[-1] ** 0.5
    close(scored_by(Rotary(), {}, peer), peer["rotary"])
    found = scored_by(Buckets(buckets=16, distance=24), {"b": peer["b"]}, peer)
    close(found - products, peer["buckets"])
    for head, bias in enumerate(peer["alibi"]):
        found = scored_by(Alibi(), {}, peer, head=jnp.array(head), heads=jnp.array(6))
        close(found - products, bias)


def test_torch_ctc_loss():
    """As RAD-TTS uses it. The last of three targets is shorter than its source."""
    peer = answers("forward_sum")
    lengths = zip(reversed(peer["weights"].shape[1:]), peer["lengths"], strict=True)
    ids = (jnp.where(jnp.arange(most) < of[:, None], EOS, PAD) for most, of in lengths)
    batch, rng = Batch(*ids), jax.random.split(jax.random.key(0), 3)

    def of_pairs(weights):
        return total(ForwardSum(sharpness=None), weights[:, None, None], batch, jnp.array(0), rng)

    found, gradient = jax.jit(jax.value_and_grad(of_pairs))(peer["weights"])
    close(found, peer["losses"].sum())
    close(gradient, peer["gradient"])


def copied(peer, heads, projection):
    """A cross-attention with the peer's weights."""
    width, annotation_size = peer["query"].shape[-1], peer["annotations"].shape[-1]
    config = Model(
        score=ScaledDot(),
        heads=heads,
        projection=projection,
        hidden_size=width,
        annotation_size=annotation_size,
    )
    block = CrossAttention(config, 0, rngs=nnx.Rngs(0))
    projections = block.attention.projections
    for linear, name in (("queries", "query"), ("keys", "key"), ("values", "value")):
        getattr(projections, linear).kernel[...] = peer[f"W_{name}"]
    if "W_output" in peer:
        projections.output.kernel[...] = peer["W_output"]
        block.residual.norm.scale[...], block.residual.norm.bias[...] = (
            peer["norm_scale"],
            peer["norm_bias"],
        )
    if projection == "affine":
        biases = jnp.split(peer["b_input"], 3)
        linears = projections.queries, projections.keys, projections.values, projections.output
        for linear, bias in zip(linears, [*biases, peer["b_output"]], strict=True):
            linear.bias[...] = bias
    return block


@jax.jit
def attended(attention: Attention, query, annotations, mask):
    return attention(query, attention.project(encoded(annotations)), mask)


@pytest.mark.parametrize(
    ("name", "projection"), [("multi_head", "linear"), ("multi_head_affine", "affine")]
)
def test_torch_multi_head_attention_with_residual_and_norm(name, projection):
    peer = answers(name)
    block = copied(peer, 3, projection)
    query, annotations, mask = peer["query"], peer["annotations"], peer["mask"]
    contexts, weights = attended(block.attention, query, annotations, mask)
    close(contexts, peer["output"])
    close(weights, peer["weights"])
    normed, again = block(query, block.attention.project(encoded(annotations)), mask)
    close(normed, peer["normed"])
    close(again, peer["weights"])


def test_torch_single_head_module():
    peer = answers("single_head")
    attention = copied(peer, 1, "linear").attention
    mask = jnp.ones((1, 5), bool)
    contexts, weights = attended(attention, peer["query"], peer["annotations"], mask)
    assert contexts.shape == (1, 3, 4)
    assert weights[:, 0].shape == (1, 3, 5)
    np.testing.assert_allclose(contexts, peer["output"], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(weights[:, 0], peer["weights"], rtol=1e-6, atol=1e-6)


def copy_cell(cell, peer, suffix):
    """PyTorch has the gates in the same order, but two biases even where one is enough."""
    weights = {kind: peer[f"{kind}_{suffix}"] for kind in ("weight_ih", "weight_hh")}
    biases = peer[f"bias_ih_{suffix}"], peer[f"bias_hh_{suffix}"]
    cell.input.kernel[...] = weights["weight_ih"].T
    cell.recurrent.kernel[...] = weights["weight_hh"].T
    if cell.recurrent.bias is None:
        cell.input.bias[...] = sum(biases)
    else:
        cell.input.bias[...], cell.recurrent.bias[...] = biases


@pytest.mark.parametrize("name", ["gru", "lstm", "tanh"])
def test_torch_bidirectional_stacks_of_packed_sentences(name):
    peer = answers(name)
    config = Model(
        cell=name,
        embedding_size=peer["inputs"].shape[-1],
        annotation_size=peer["output"].shape[-1],
        encoder_layers=2,
    )
    encoder = RecurrentEncoder(config, rngs=nnx.Rngs(0))
    for number, layer in enumerate(encoder.layers):
        copy_cell(layer.forward.cells[0], peer, f"l{number}")
        copy_cell(layer.backward.cells[0], peer, f"l{number}_reverse")
    annotations, _ = jax.jit(lambda e, x, m: e(x, m))(encoder, peer["inputs"], peer["mask"])
    close(annotations[peer["mask"]], peer["output"][peer["mask"]])


def copy_linear(linear, peer, name):
    linear.kernel[...], linear.bias[...] = peer[f"{name}weight"].T, peer[f"{name}bias"]


def copy_feed_forward(part, peer, layer, norm):
    copy_linear(part.widen, peer, f"{layer}.linear1.")
    copy_linear(part.narrow, peer, f"{layer}.linear2.")
    copy_norm(part, peer, f"{layer}.{norm}.")


def copy_norm(part, peer, name):
    norm = part.residual.norm
    norm.scale[...], norm.bias[...] = peer[f"{name}weight"], peer[f"{name}bias"]


def copy_self_attention(part, peer, layer):
    copy_linear(part.inputs, peer, f"{layer}.self_attn.in_proj_")
    copy_linear(part.output, peer, f"{layer}.self_attn.out_proj.")
    copy_norm(part, peer, f"{layer}.norm1.")


def copy_cross_attention(part, peer, layer):
    projections = part.attention.projections
    linears = projections.queries, projections.keys, projections.values
    kernels = jnp.split(peer[f"{layer}.multihead_attn.in_proj_weight"].T, 3, axis=1)
    biases = jnp.split(peer[f"{layer}.multihead_attn.in_proj_bias"], 3)
    for linear, kernel, bias in zip(linears, kernels, biases, strict=True):
        linear.kernel[...], linear.bias[...] = kernel, bias
    copy_linear(projections.output, peer, f"{layer}.multihead_attn.out_proj.")
    copy_norm(part, peer, f"{layer}.norm2.")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_torch_transformer_layers(norm):
    peer = answers(f"transformer_{norm}")
    source, target, mask = peer["source"], peer["target"], peer["mask"]
    width = source.shape[-1]
    config = Model(
        score=ScaledDot(),
        heads=3,
        projection="affine",
        norm=norm,
        hidden_size=width,
        annotation_size=width,
        feedforward_size=peer["encoder.linear1.bias"].size,
    )
    encoder = EncoderBlock(config, width, rngs=nnx.Rngs(0))
    copy_self_attention(encoder.self_attention, peer, "encoder")
    copy_feed_forward(encoder.feed_forward, peer, "encoder", "norm2")
    everywhere = jnp.broadcast_to(mask[:, None], (*mask.shape, mask.shape[1]))
    annotations = encoder(source, everywhere, None)
    close(annotations[mask], peer["annotations"][mask])

    decoder = DecoderBlock(config, 0, rngs=nnx.Rngs(0))
    copy_self_attention(decoder.self_attention, peer, "decoder")
    copy_cross_attention(decoder.cross_attention, peer, "decoder")
    copy_feed_forward(decoder.feed_forward, peer, "decoder", "norm3")
    projected = decoder.cross_attention.attention.project(encoded(annotations))
    outputs, _ = decoder(target, projected, mask, None)
    close(outputs, peer["output"])


@pytest.mark.parametrize(
    ("name", "alpha"), [("sparsemax", 2.0), ("entmax15", 1.5), ("entmax_125", 1.25)]
)
def test_entmax_with_its_gradient(name, alpha):
    peer = answers("sparse")
    everywhere = jnp.ones(peer["scores"].shape[1:], bool)
    normalizer = jax.jit(jax.vmap(lambda row: sparse(row, everywhere, alpha)))
    close(normalizer(peer["scores"]), peer[name])
    assert np.array_equal(normalizer(peer["scores"]) == 0, peer[name] == 0)
    gradient = jax.grad(lambda x: (normalizer(x) * peer["towards"]).sum())(peer["scores"])
    close(gradient, peer[f"{name}_gradient"])
