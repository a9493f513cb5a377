"""The weights of self-attention, against loops in float64 over each sentence alone."""

from functools import partial

import jax
import numpy as np
import pytest

from attn_jax.models.seq2seq import Seq2Seq
from attn_jax.tokens import BOS, PAD
from tests.models import oracle, transformer_oracle
from tests.models.arithmetic import double
from tests.models.test_seq2seq import SOURCE_SIZE, TARGET, make, name_of, source_of
from tests.stages import full

BOTH = {"encoder": "transformer", "decoder": "transformer"}
DEEP = {"encoder_layers": 2, "decoder_layers": 2, "self_heads": 2}


def of_encoder(model, source):
    """Of one unpadded sentence, [L, N, S, S]; of two sources in a row, each to itself."""
    vectors = oracle.word_vectors(model, source)
    if model.second is None:
        of_each = [(model.encoder, vectors)]
    else:
        if oracle.in_one_row(model):
            count = sum(word < SOURCE_SIZE for word in source)
            vectors = vectors[:count], vectors[count:]
        of_each = zip((model.encoder, model.second.encoder), vectors, strict=True)
    whole, first = [], 0
    for encoder, words in of_each:
        kept = []
        transformer_oracle.encode(encoder, words, kept)
        end = first + len(words)
        squares = np.zeros((*np.shape(kept)[:2], len(source), len(source)))
        squares[..., first:end, first:end] = kept
        whole.append(squares)
        first = end
    return sum(whole)


def of_decoder(model, source, target):
    """Of one unpadded pair, [L, N, T, T]."""
    before, kept = [BOS, *target[:-1]], []
    vectors = [double(model.words.target_words.embedding)[word] for word in before]
    if model.sums_over_alignments:
        transformer_oracle.states(model.decoder, vectors, kept)
        return np.array(kept)
    annotations, *_ = oracle.encode(model, source)
    attend = partial(oracle.attend, words=oracle.word_vectors(model, source))
    transformer_oracle.decode(model.decoder, vectors, annotations, attend, kept)
    return np.array(kept)


@pytest.mark.parametrize(
    "options",
    [
        {**BOTH, "self_heads": 2, "norm": "pre"},
        pytest.param({**BOTH, **DEEP}, marks=full),
        pytest.param({**BOTH, **DEEP, "positions": "rotary", "hidden_size": 20}, marks=full),
        pytest.param({"decoder": "transformer", "readout": "marginal", **DEEP}, marks=full),
        pytest.param({"decoder": "luong", "encoder": "transformer"}, marks=full),
        pytest.param({**BOTH, "sources": "concatenated", "self_heads": 2}, marks=full),
        pytest.param({**BOTH, "sources": "flat"}, marks=full),
    ],
    ids=name_of,
)
def test_equal_the_papers_loop_and_leave_out_padding_and_the_future(options):
    model = make(**options)
    sources = source_of(model)
    found = jax.jit(Seq2Seq.self_weights)(model, sources, TARGET)
    assert (found.encoder is None) == (options.get("encoder") is None)
    assert (found.decoder is None) == (options["decoder"] == "luong")
    for row in range(len(sources)):
        source, target = ([i for i in side[row] if i != PAD] for side in (sources, TARGET))
        if found.encoder is not None:
            actual = found.encoder[row, :, :, : len(source)]
            expected = of_encoder(model, source)
            np.testing.assert_allclose(actual[..., : len(source)], expected, rtol=1e-4, atol=1e-6)
            assert not np.any(actual[..., len(source) :])
        if found.decoder is not None:
            actual = found.decoder[row, :, :, : len(target)]
            expected = of_decoder(model, source, target)
            np.testing.assert_allclose(actual[..., : len(target)], expected, rtol=1e-4, atol=1e-6)
            assert not np.any(actual[..., len(target) :])
