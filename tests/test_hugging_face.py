"""Weights out of models of Hugging Face: of tiny random ones, against what these return."""

import numpy as np
import pytest

import attn_jax
from attn_jax.errors import InputError
from attn_jax.pairs import read_pairs
from tests.stages import full

pytestmark = full

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

TOKENS = ["<pad>", "</s>", "<unk>", "▁the", "▁cat", "s", "▁die", "▁katze", "."]
SIZES = {"d_model": 16, "vocab_size": 9, "pad_token_id": 0, "eos_token_id": 1}
SIZES |= {"decoder_start_token_id": 0, "decoder_layers": 2, "decoder_attention_heads": 4}


@pytest.fixture(scope="module")
def tokenizer():
    tokenizers = pytest.importorskip("tokenizers")
    words = dict(zip(TOKENS, range(len(TOKENS)), strict=True))
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


@pytest.fixture(scope="module")
def marian():
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        **SIZES, encoder_layers=1, encoder_attention_heads=2, init_std=1.0, num_beams=1
    )
    model = transformers.MarianMTModel(config).eval()
    model.generation_config.max_length = 9
    return model


def test_a_given_target(marian, tokenizer):
    (pair,) = attn_jax.weights_of(marian, tokenizer, ["▁the ▁cat s"], ["▁die ▁katze ."])
    assert pair.source == ["▁the", "▁cat", "s", "</s>"]
    assert pair.source_words == [0, 1, 1, -1]
    assert pair.target == ["▁die", "▁katze", ".", "</s>"]
    assert pair.target_words == [0, 1, 1, -1]
    marian.set_attn_implementation("eager")
    batch = tokenizer("▁the ▁cat s", text_target="▁die ▁katze .", return_tensors="pt")
    with torch.no_grad():
        layers = marian(**batch, output_attentions=True).cross_attentions
    np.testing.assert_allclose(pair.weights, torch.cat(layers).numpy(), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"num_beams": 4, "num_return_sequences": 3}], ids=str)
def test_weights_follow_the_ancestors_of_a_hypothesis(marian, tokenizer, options):
    pairs = attn_jax.weights_of(marian, tokenizer, ["▁the ▁cat s"], **options)
    assert len(pairs) == options.get("num_return_sequences", 1)
    marian.set_attn_implementation("eager")
    ids = tokenizer("▁the ▁cat s", return_tensors="pt")["input_ids"]
    known = {"output_attentions": True, "return_dict_in_generate": True}
    found = marian.generate(ids, **options, **known)
    for number, pair in enumerate(pairs):
        for step in range(len(pair.target)):
            row = int(found.beam_indices[number, step]) if options else 0
            weights = torch.stack([one[row, :, -1] for one in found.cross_attentions[step]])
            np.testing.assert_allclose(pair.weights[:, :, step], weights, rtol=1e-4, atol=1e-6)


def test_t5_and_a_model_in_training_stay_as_they_were(tokenizer):
    config = transformers.T5Config(
        d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=9, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).train()
    before = model.config._attn_implementation
    (pair,) = attn_jax.weights_of(model, tokenizer, ["▁the"], ["▁die"])
    assert pair.weights.shape == (1, 2, 2, 2)
    np.testing.assert_allclose(pair.weights.sum(axis=-1), 1, rtol=1e-5)
    assert model.training
    assert model.config._attn_implementation == before


def test_a_file_and_a_page_hold_them(marian, tokenizer, tmp_path):
    pairs = attn_jax.weights_of(marian, tokenizer, ["▁the ▁cat s"], ["▁die ▁katze ."])
    attn_jax.save_weights(tmp_path / "a.npz", pairs)
    (read,) = read_pairs("a", tmp_path / "a.npz")
    assert (read.source, read.target_words) == (pairs[0].source, pairs[0].target_words)
    np.testing.assert_array_equal(read.weights, pairs[0].weights)
    attn_jax.page(tmp_path / "a.html", pairs)


def test_refuses_what_does_not_fit(marian, tokenizer):
    with pytest.raises(InputError, match="got 1 sources, but 2 targets"):
        attn_jax.weights_of(marian, tokenizer, ["▁the"], ["▁die", "▁die"])
    with pytest.raises(InputError, match="num_beams: nothing is generated"):
        attn_jax.weights_of(marian, tokenizer, ["▁the"], ["▁die"], num_beams=2)
    with pytest.raises(InputError, match="expected a list of sources"):
        attn_jax.weights_of(marian, tokenizer, "▁the")
    with pytest.raises(InputError, match="expected a list of targets"):
        attn_jax.weights_of(marian, tokenizer, ["▁the"], "▁die")
    with pytest.raises(InputError, match="the sources of MarianMTModel are texts"):
        attn_jax.weights_of(marian, tokenizer, [np.zeros(3)])
    alone = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8))
    with pytest.raises(InputError, match="has no encoder"):
        attn_jax.weights_of(alone, tokenizer, ["▁the"])
    config = transformers.WhisperConfig(
        d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    whisper = transformers.WhisperForConditionalGeneration(config)
    with pytest.raises(InputError, match="reads speech: give its processor"):
        attn_jax.weights_of(whisper, tokenizer, ["a.wav"])
