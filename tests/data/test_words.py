"""Where words end: at ASCII spaces and tabs alone, at every level."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.alignment import units
from attn_jax.config import Data
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.sentences import words_of
from attn_jax.data.vocabulary import copies

# At each of these, Python's `split` cuts, too.
OTHERS = [
    *("\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"),
    *("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\r"),
]
DATA = Data(min_count=1, subwords=60)


@given(st.text("a \t\u00a0\u3000\x0b\x1f\r"))
def test_words_are_those_of_an_aligner(text):
    of_bytes = text.encode().replace(b"\t", b" ").split(b" ")  # as C++ reads a line
    assert words_of(text) == [word.decode() for word in of_bytes if word]


@pytest.mark.parametrize("other", OTHERS, ids=ascii)
@pytest.mark.parametrize("level", ["word", "symbol", "character", "subword"])
def test_every_level_counts_the_same_words(level, other):
    text = f" 10{other}000 euros\tam  {other} see"
    vocabulary = build_vocabulary(level, [text, "am see"], DATA)
    found, indices = units.words(vocabulary.cut(text))
    assert found == [f"10{other}000", "euros", "am", other, "see"]
    assert len(indices) == len(vocabulary.cut(text).tokens)
    assert indices[-1] == 4
    assert set(indices) >= {0, 1, 2, 4}  # normalisation may leave no subword of a word
    if level in ("word", "symbol"):
        assert vocabulary.join(vocabulary.decode(vocabulary.encode(text))) == " ".join(found)
        assert copies(vocabulary, vocabulary, vocabulary.cut(text)) == found


def test_errors_count_the_words_of_normalised_subwords():
    vocabulary = build_vocabulary("subword", ["10\u00a0000 euros"], DATA)
    said = vocabulary.join(vocabulary.cut("10\u00a0000 euros").tokens)
    assert vocabulary.words(said) == vocabulary.words("10\u00a0000 euros") == ["10", "000", "euros"]
