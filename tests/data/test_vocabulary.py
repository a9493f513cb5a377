"""Vocabularies: from text to tokens and back, and unknown tokens."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.config import Data
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import (
    as_json,
    build_vocabulary,
    cutting,
    joint,
    load_vocabulary,
    separate,
)
from attn_jax.data.sentences import Example
from attn_jax.data.vocabulary import LEVELS, copies
from attn_jax.errors import InputError
from attn_jax.tokens import EOS, SPECIALS, UNK

TEXTS = ["ein haus am see", "ein hund am haus", "der see <unk> </s>"] * 2
DATA = Data(min_count=2, subwords=40)


def of_sides(build, sources, targets, config):
    """The vocabularies of a training text."""
    return build(cut_pairs(map(Example, sources, targets), cutting(config)), config)


@pytest.mark.parametrize("level", LEVELS)
def test_text_survives_the_round_trip(level, tmp_path):
    vocabulary = build_vocabulary(level, TEXTS, DATA)
    (tmp_path / "v.json").write_text(as_json(vocabulary), "utf-8")
    loaded = load_vocabulary(tmp_path / "v.json")
    assert type(loaded) is type(vocabulary)
    assert loaded.tokens == vocabulary.tokens
    assert loaded.tokens[:4] == list(SPECIALS)
    for text in TEXTS[:2]:
        ids = loaded.encode(text)
        assert UNK not in ids
        joined = text.replace(" ", ";") if level == "tag" else text
        assert loaded.join(loaded.decode([*ids, EOS, 7, 7])) == joined


@given(st.text(min_size=1))
def test_characters_spell_any_text(text):
    vocabulary = build_vocabulary("character", [text], DATA)
    assert vocabulary.join(vocabulary.decode(vocabulary.encode(text))) == text


@pytest.mark.parametrize("level", ["word", "character", "symbol"])
def test_what_was_not_in_training_is_unknown(level):
    vocabulary = build_vocabulary(level, TEXTS, DATA)
    assert vocabulary.encode("Ж") == [UNK]


def test_words_need_their_count():
    vocabulary = build_vocabulary("word", ["a a b", "a c"], Data(min_count=2))
    assert vocabulary.tokens[4:] == ["a"]
    assert build_vocabulary("symbol", ["a a b"], Data(min_count=2)).tokens[4:] == ["a", "b"]


def test_the_most_frequent_words_are_kept():
    texts = ["c b a", "c b", "c d"]
    vocabulary = build_vocabulary("word", texts, Data(min_count=1, words=2))
    assert vocabulary.tokens[4:] == ["c", "b"]


def test_one_vocabulary_of_both_sides():
    config = Data(source_level="word", target_level="word", min_count=2)
    one, other = of_sides(joint, ["a b"], ["b a c"], config)
    assert one is other
    assert set(one.tokens[4:]) == {"a", "b"}
    source, target = of_sides(separate, ["a a b"], ["c c a"], config)
    assert (source.tokens[4:], target.tokens[4:]) == (["a"], ["c"])
    config = Data(source_level="character", target_level="word")
    with pytest.raises(InputError, match=r"needs both sides at one level, got .*=character"):
        of_sides(joint, ["a"], ["b"], config)


def test_a_token_that_looks_special_is_none():
    vocabulary = build_vocabulary("word", TEXTS, DATA)
    assert EOS not in vocabulary.encode("see </s> am")


@pytest.mark.parametrize(
    ("level", "texts", "message"),
    [
        ("word", ["a b c"], "the vocabulary is empty: no word occurs 2 times"),
        ("symbol", [" "], "the vocabulary is empty"),
        ("letters", ["a"], "unknown level of tokens 'letters'; allowed: word, character, symbol"),
    ],
)
def test_refuses_an_empty_vocabulary(level, texts, message):
    with pytest.raises(InputError, match=message):
        build_vocabulary(level, texts, DATA)


def test_an_empty_vocabulary_says_of_which_side():
    config = Data(source_level="word", target_level="word", min_count=2)
    with pytest.raises(InputError, match="the source side: the vocabulary is empty"):
        of_sides(separate, ["a b c"], ["a a"], config)


@pytest.mark.parametrize("build", [separate, joint])
def test_subwords_are_learnt_from_the_text_itself(build):
    config = Data(source_level="subword", target_level="subword", subwords=40)
    source, target = of_sides(build, TEXTS, TEXTS, config)
    learnt = build_vocabulary("subword", TEXTS * (1 if build is separate else 2), config)
    assert source.content() == target.content() == learnt.content()


def test_subwords_of_short_lines():
    lines = [f"{one}{other}" for one in "abc" for other in "abc"]
    vocabulary = build_vocabulary("subword", lines, Data(subwords=20))
    assert vocabulary.join(vocabulary.decode(vocabulary.encode("ab"))) == "ab"


def test_a_word_of_symbols_is_the_whole_sequence():
    assert build_vocabulary("symbol", ["a b"], DATA).words("a  b") == ["a b"]
    assert build_vocabulary("character", ["a b"], DATA).words("a  b") == ["a", "b"]


@pytest.mark.parametrize(
    ("level", "text", "words"),
    [
        ("word", "ein neues haus", [0, 1, 2]),
        ("symbol", "a  b", [0, 1]),
        ("character", "am see", [0, 0, 0, 1, 1, 1]),
        ("character", " am  ", [0, 0, 0, 0, 0]),
    ],
)
def test_each_token_knows_its_word(level, text, words):
    assert build_vocabulary(level, [text] * 2, DATA).cut(text).words == words


def test_subwords_know_their_word():
    vocabulary = build_vocabulary("subword", TEXTS, DATA)
    text = "der hund am seehaus 7"
    assert len(vocabulary.cut(text).tokens) > 5
    spelt = ["", "", "", "", ""]
    for piece, word in zip(vocabulary.cut(text).tokens, vocabulary.cut(text).words, strict=True):
        spelt[word] += piece.removeprefix("▁")
    assert spelt == text.split()
    # Also where normalisation adds spaces, or leaves nothing of a word.
    assert set(vocabulary.cut("l\u00b4ami haus").words) == {0, 1}
    assert vocabulary.cut("haus \u200b see").words[-1] == 2


@pytest.mark.parametrize(
    ("source", "target", "text", "expected"),
    [
        ("word", "word", "am  See", ["am", "See"]),
        ("character", "word", "am  See", ["am"] * 4 + ["See"] * 3),
        ("character", "word", " ", [" "]),
        ("character", "symbol", "am", ["a", "m"]),
        ("character", "character", "a m", ["a", " ", "m"]),
        ("word", "character", "am see", ["am", "see"]),
    ],
)
def test_what_is_copied_is_a_token_or_the_word_around_it(source, target, text, expected):
    read, written = (build_vocabulary(level, TEXTS, DATA) for level in (source, target))
    assert copies(read, written, read.cut(text)) == expected


def test_what_is_copied_of_subwords():
    source = build_vocabulary("subword", TEXTS, DATA)
    text = "der Жhund"
    pieces = source.cut(text).tokens
    assert len(pieces) > 3
    words = copies(source, build_vocabulary("word", TEXTS, DATA), source.cut(text))
    assert words == ["der" if word == 0 else "Жhund" for word in source.cut(text).words]
    assert copies(source, source, source.cut(text)) == [piece.replace("▁", "") for piece in pieces]
    copied = [piece if piece != "Ж" else "<unk>" for piece in pieces]
    place = copied.index("<unk>")
    copied[place] = copies(source, source, source.cut(text))[place]
    assert source.join(copied) == text


def test_an_unknown_token_of_a_prepared_text_is_the_special_one():
    vocabulary = build_vocabulary("word", ["a <unk> a <unk>"], DATA)
    assert vocabulary.encode("<unk> a") == [UNK, 4]
    assert len(vocabulary) == 5
    config = Data(min_count=1, words=2)
    assert build_vocabulary("word", ["a <unk> <unk> <unk> b b"], config).tokens[4:] == ["b", "a"]


def test_subwords_are_learned_from_long_lines():
    vocabulary = build_vocabulary("subword", ["haus " * 2000 + "жук", *TEXTS], DATA)
    assert UNK not in vocabulary.encode("жук")
    with pytest.raises(InputError, match=r"data\.subwords=8 is less than the \d+ characters"):
        build_vocabulary("subword", TEXTS, dataclasses.replace(DATA, subwords=8))
