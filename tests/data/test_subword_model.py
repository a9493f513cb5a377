"""Subwords know every character of the text they are learned from, or say which they do not."""

import warnings

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from attn_jax.config import Data
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.sentences import words_of
from attn_jax.errors import InputError
from attn_jax.tokens import UNK

NORMALIZER = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc")
# What SentencePiece has a use of its own for, in several spellings, and what it may remove.
SIGNS = [
    "</s>",
    "<s>",
    "<pad>",
    "<unk>",
    "\uff1cs\uff1e",
    "▅",
    "▁",
    "\0",
    "\x01",
    "\x1f",
    "\t",
    "\n",
]
ODD = [
    "\u200b",
    "\u200d",
    "\ufeff",
    "\x85",  # white space to Python, a character to SentencePiece
    "\u2028",
    "\u3000",
    "\u00ad",
    "\u00a0",
    "\ufffd",
    "\uffff",
    "👩‍🚀",
    "e\u0301",
    "ﬃ",
    ",",
]
LINES = st.lists(
    st.sampled_from([*SIGNS, *ODD, "a", " ", "ж", "龘"]) | st.characters(codec="utf-8")
)


def spaced(text):
    """A text as SentencePiece normalises it, with single spaces."""
    normalized = (NORMALIZER.normalize(word.replace("\0", "")) for word in words_of(text))
    return " ".join("".join(normalized).replace("▁", " ").split(" ")[1:])


@settings(max_examples=300, deadline=None)
@given(st.lists(LINES.map("".join), min_size=1, max_size=4))
def test_every_character_of_the_training_text_is_known(texts):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "▁ in the training text is read as a space")
        if not any(spaced(text).replace("▅", "").strip(" ") for text in texts):
            with pytest.raises(InputError, match="the vocabulary is empty"):
                build_vocabulary("subword", texts, Data(subwords=400))
            return
        vocabulary = build_vocabulary("subword", texts, Data(subwords=400))
    for text in texts:
        assert UNK not in vocabulary.encode(text), text
        assert vocabulary.join(vocabulary.cut(text).tokens) == spaced(text)


def test_a_large_text_does_not_hide_its_rarest_character():
    lines = ["abcdefghij" * 100] * 34_000  # 34 million: 1 - 1 / 34e6 is 1 in single precision
    vocabulary = build_vocabulary("subword", [*lines, "ж"], Data(subwords=40))
    assert UNK not in vocabulary.encode("ж")


def test_characters_that_are_left_unknown_are_counted():
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 10)))
    config = Data(subwords=40, character_coverage=0.99)
    message = (
        r"10 of 13 characters of the training text are unknown \(一 丁 丂 七 丄 …\), by "
        r"data\.character_coverage=0\.99$"
    )
    with pytest.warns(UserWarning, match=message):
        vocabulary = build_vocabulary("subword", ["abc " * 999, rare], config)
    assert set(vocabulary.encode(rare)[1:]) == {UNK}


def test_more_characters_than_subwords_are_refused_with_options_that_exist():
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    message = (
        r"data\.subwords=100 is less than the 305 characters .*: give at least that many, or "
        r"leave .* unknown with a smaller data\.character_coverage, such as 0\.9995"
    )
    with pytest.raises(InputError, match=message):
        build_vocabulary("subword", [text], Data(subwords=100))
    assert len(build_vocabulary("subword", [text], Data(subwords=305))) >= 304


def test_a_sign_that_stands_for_a_space_is_told():
    with pytest.warns(UserWarning, match="▁ in the training text is read as a space"):
        build_vocabulary("subword", ["x▁y bar"] * 3, Data(subwords=40))
