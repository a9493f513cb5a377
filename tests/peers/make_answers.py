"""Computes the peers' answers, and writes them to `.npz` files beside this file, one per case.

The tests do not need the peers. To run this, make a separate environment (with Python 3.11, even if
the project itself runs on a newer one):

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 keras entmax x-transformers==2.31.10
    peers/bin/python tests/peers/make_answers.py
"""

import os
from pathlib import Path

import numpy as np
import torch

os.environ["KERAS_BACKEND"] = "torch"

import entmax
import keras
from x_transformers import x_transformers

HERE = Path(__file__).parent
B, T, S, Q, D, A, N = 2, 3, 5, 6, 7, 11, 3


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).float()


def save(name: str, **answers: torch.Tensor) -> None:
    arrays = {key: value.detach().numpy() for key, value in answers.items()}
    np.savez_compressed(HERE / f"{name}.npz", **arrays)


def mask() -> torch.Tensor:
    """True where a position may be attended; the second sentence is padded."""
    return torch.tensor([[True] * S, [True] * (S - 2) + [False] * 2])


def scaled_dot_product_attention() -> None:
    query, keys, values = draw(1, B, T, Q), draw(2, B, S, Q), draw(3, B, S, D)
    output = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, attn_mask=mask()[:, None]
    )
    save("scaled_dot", query=query, keys=keys, values=values, mask=mask(), output=output)


def multi_head(name: str, bias: bool) -> None:
    """Cross-attention between different sizes, then residual sum and layer normalisation."""
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(
        Q, N, bias=bias, kdim=D, vdim=D, batch_first=True, dropout=0.0
    )
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    norm = torch.nn.LayerNorm(Q)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    query, annotations = draw(4, B, T, Q), draw(5, B, S, D)
    output, weights = attention(
        query, annotations, annotations, key_padding_mask=~mask(), average_attn_weights=False
    )
    save(
        name,
        query=query,
        annotations=annotations,
        mask=mask(),
        output=output,
        weights=weights,
        normed=norm(query + output),
        norm_scale=norm.weight,
        norm_bias=norm.bias,
        W_query=attention.q_proj_weight.T,
        W_key=attention.k_proj_weight.T,
        W_value=attention.v_proj_weight.T,
        W_output=attention.out_proj.weight.T,
        **(
            {
                "b_input": attention.in_proj_bias,
                "b_output": attention.out_proj.bias,
            }
            if bias
            else {}
        ),
    )


class SingleHead(torch.nn.Module):
    """Q from the decoder, K and V from the encoder, and nothing else."""

    def __init__(self, size: int):
        super().__init__()
        self.query = torch.nn.Linear(size, size, bias=False)
        self.key = torch.nn.Linear(size, size, bias=False)
        self.value = torch.nn.Linear(size, size, bias=False)

    def forward(self, inputs: torch.Tensor, annotations: torch.Tensor):
        scores = self.query(inputs) @ self.key(annotations).transpose(1, 2)
        weights = torch.softmax(scores / scores.new_tensor(inputs.shape[-1]).sqrt(), dim=-1)
        return weights @ self.value(annotations), weights


def single_head() -> None:
    torch.manual_seed(1)
    attention = SingleHead(4)
    query, annotations = draw(6, 1, 3, 4), draw(7, 1, 5, 4)
    output, weights = attention(query, annotations)
    save(
        "single_head",
        query=query,
        annotations=annotations,
        output=output,
        weights=weights,
        W_query=attention.query.weight.T,
        W_key=attention.key.weight.T,
        W_value=attention.value.weight.T,
    )


def additive() -> None:
    """Keras does not project query and keys, and has one scale: W = U = 1, v is the scale."""
    layer = keras.layers.AdditiveAttention(use_scale=True)
    query, keys, values = draw(8, B, T, A), draw(9, B, S, A), draw(10, B, S, D)
    layer.build([query.shape, values.shape, keys.shape])
    layer.scale.assign(draw(11, A).numpy())
    output, weights = layer(
        [query, values, keys], mask=[None, mask()], return_attention_scores=True
    )
    save(
        "additive",
        query=query,
        keys=keys,
        values=values,
        mask=mask(),
        v=torch.tensor(keras.ops.convert_to_numpy(layer.scale)),
        output=output,
        weights=weights,
    )


def sparse() -> None:
    """Weights and the gradient of a weighted sum of them."""
    scores, towards = draw(12, 4, 13) * 2, draw(13, 4, 13)
    answers = {"scores": scores, "towards": towards}
    for name, function in {
        "sparsemax": entmax.sparsemax,
        "entmax15": entmax.entmax15,
        "entmax_125": lambda x, dim: entmax.entmax_bisect(x, alpha=1.25, dim=dim, n_iter=100),
    }.items():
        inputs = scores.clone().requires_grad_()
        weights = function(inputs, dim=-1)
        (gradient,) = torch.autograd.grad((weights * towards).sum(), inputs)
        answers |= {name: weights, f"{name}_gradient": gradient}
    save("sparse", **answers)


def offsets() -> None:
    """Scores of positions in self-attention, with as many steps as positions."""
    length, heads = 40, 6
    query, keys = draw(16, length, Q), draw(17, length, Q)
    buckets = x_transformers.RelativePositionBias(1.0, num_buckets=16, max_distance=24, heads=1)
    frequencies, _ = x_transformers.RotaryEmbedding(Q).forward_from_seq_len(length)
    turned = [
        x_transformers.apply_rotary_pos_emb(each[None], frequencies)[0] for each in (query, keys)
    ]
    save(
        "offsets",
        query=query,
        keys=keys,
        alibi=x_transformers.AlibiPositionalBias(heads)(length, length),
        buckets=buckets(length, length)[0],
        b=buckets.relative_attention_bias.weight[:, 0],
        rotary=turned[0] @ turned[1].T / Q**0.5,
    )


def forward_sum() -> None:
    """The loss of RAD-TTS and NeMo, without a prior; the last target is shorter than its source."""
    lengths = torch.tensor([7, 5, 6]), torch.tensor([13, 11, 4])  # of sources and targets
    real = torch.arange(7) < lengths[0][:, None]
    scores = draw(18, 3, 13, 7).masked_fill(~real[:, None], -torch.inf)
    weights = torch.softmax(2 * scores, dim=-1).requires_grad_()
    padded = torch.nn.functional.pad(weights.clamp_min(1e-30).log(), (1, 0), value=-1)
    losses = torch.nn.functional.ctc_loss(
        padded.log_softmax(dim=-1).swapaxes(0, 1),
        torch.arange(1, 8).repeat(3, 1),
        target_lengths=lengths[0],
        input_lengths=lengths[1],
        reduction="none",
        zero_infinity=True,
    )
    (gradient,) = torch.autograd.grad(losses.sum(), weights)
    save(
        "forward_sum",
        weights=weights,
        losses=losses,
        gradient=gradient,
        lengths=torch.stack(lengths),
    )


def recurrent(name: str, kind: type[torch.nn.RNNBase]) -> None:
    """Two bidirectional layers over sentences of different lengths, packed."""
    torch.manual_seed(2)
    layers = kind(Q, A, num_layers=2, bidirectional=True, batch_first=True)
    inputs, lengths = draw(13, B, S, Q), torch.tensor([S, S - 2])
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True)
    output, _ = torch.nn.utils.rnn.pad_packed_sequence(layers(packed)[0], batch_first=True)
    save(name, inputs=inputs, mask=mask(), output=output, **dict(layers.named_parameters()))


def transformer(name: str, norm_first: bool) -> None:
    """An encoder layer over padded sentences, and a decoder layer that attends to its output."""
    torch.manual_seed(3)
    sizes = {"d_model": Q, "nhead": N, "dim_feedforward": A, "dropout": 0.0}
    options = sizes | {"norm_first": norm_first, "batch_first": True}
    encoder = torch.nn.TransformerEncoderLayer(**options)
    decoder = torch.nn.TransformerDecoderLayer(**options)
    for parameter in (*encoder.parameters(), *decoder.parameters()):
        torch.nn.init.normal_(parameter, std=0.5)
    source, target = draw(14, B, S, Q), draw(15, B, T, Q)
    annotations = encoder(source, src_key_padding_mask=~mask())
    output = decoder(
        target,
        annotations,
        tgt_mask=torch.ones(T, T).triu(1).bool(),
        memory_key_padding_mask=~mask(),
    )
    save(
        name,
        source=source,
        target=target,
        mask=mask(),
        annotations=annotations,
        output=output,
        **{f"encoder.{key}": value for key, value in encoder.named_parameters()},
        **{f"decoder.{key}": value for key, value in decoder.named_parameters()},
    )


if __name__ == "__main__":
    scaled_dot_product_attention()
    multi_head("multi_head", bias=False)
    multi_head("multi_head_affine", bias=True)
    single_head()
    additive()
    sparse()
    offsets()
    forward_sum()
    recurrent("gru", torch.nn.GRU)
    recurrent("lstm", torch.nn.LSTM)
    recurrent("tanh", torch.nn.RNN)
    transformer("transformer_post", norm_first=False)
    transformer("transformer_pre", norm_first=True)
