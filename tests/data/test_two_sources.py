"""Two sources in one text: cut, numbered, joined, counted and kept."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attn_jax.config import Data
from attn_jax.data.parallel_text import find_sides, read_pairs
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import VOCABULARIES, as_json, cutting, from_json
from attn_jax.data.sentences import Example, Sentence, joined, parted
from attn_jax.data.vocabulary import copies, known
from attn_jax.errors import InputError
from attn_jax.tokens import UNK

CONFIG = Data(columns="1,2,3", source_level="character", target_level="character", name="parallel")
EXAMPLES = [
    Example("laufen\tV;PST;3;SG", "lief"),
    Example("Vau\tN;NOM SG", "Vau"),
    Example("a\tb c\tN", "d"),  # a tab in the first text
]


def built(config=CONFIG, examples=EXAMPLES, kind="separate"):
    return VOCABULARIES[kind](cut_pairs(examples, cutting(config)), config)


def test_each_source_has_a_vocabulary_of_its_own():
    source, _ = built()
    assert source.sizes == (len(source.first), len(source.second))
    assert set(source.first.tokens[4:]) == set("laufenVau a\tb c".replace("\t", "\t"))
    assert set(source.second.tokens[4:]) == {"V", "PST", "3", "SG", "N", "NOM"}
    assert known(source) == len(source) - 8


def test_ids_of_the_second_follow_those_of_the_first():
    source, _ = built()
    sentence = source.cut("Vau\tV;X")
    assert sentence.tokens == ["V", "a", "u", "\tV", "\tX"]
    v, *_, tag, unknown = source.encode("Vau\tV;X")
    assert v < len(source.first) < tag
    assert source.tokens[v] == "V"
    assert source.tokens[tag] == "\tV"
    assert unknown == len(source.first) + UNK
    assert source.unknown([sentence]) == ["\tX"]
    assert source.first_tokens(sentence) == 3


def test_a_sentence_without_a_first_source_is_empty():
    source, _ = built()
    assert source.cut("\tV;SG") == Sentence("\tV;SG", [], [])
    assert source.cut("Vau\t").tokens == ["V", "a", "u"]


def test_words_of_the_second_are_counted_after_those_of_the_first():
    source, target = built()
    assert list(source.cut("ab c\tV;SG N").words) == [0, 0, 0, 1, 2, 2, 3]
    assert copies(source, target, source.cut("ab\tV;SG")) == ["a", "b"]


@pytest.mark.parametrize("kind", ["separate", "joint"])
def test_vocabularies_are_kept(kind):
    source, _ = built(kind=kind)
    again = from_json(as_json(source), Path("vocabulary.source.json"))
    assert again.tokens == source.tokens
    assert again.sizes == source.sizes
    for text, *_ in EXAMPLES:
        assert again.encode(text) == source.encode(text)


def test_a_joint_vocabulary_is_that_of_the_first_and_the_target():
    source, target = built(kind="joint")
    assert source.first is target


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"))


@given(TEXTS, TEXTS)
@example("\t", "\t")
@example("\ta", "b")
def test_two_texts_come_apart_as_they_were_joined(first, second):
    assert parted(joined(first, second)) == (first, second.replace("\t", " "))


@pytest.mark.parametrize("level", ["tag", "word", "symbol", "character", "subword"])
def test_a_text_of_tokens_is_cut_into_them_again(level):
    config = Data(**vars(CONFIG) | {"second_level": level, "min_count": 1, "subwords": 30})
    source, _ = built(config)
    for text in ("laufen\tV PST", "a\tb c\tN", "Vau\tN;NOM"):
        tokens = source.cut(text).tokens
        assert source.cut(source.join(tokens)).tokens == tokens


def test_a_text_of_one_source_is_refused():
    with pytest.raises(InputError, match="'laufen' is one source, and this model has two"):
        parted("laufen")
    assert parted("") == ("", "")


def test_a_second_source_is_a_column_or_a_file(tmp_path):
    table = tmp_path / "de.tsv"
    table.write_text("laufen\tlief\tV;PST\n\N{NO-BREAK SPACE}\tx\tN\nVau\tVau\t\n", "utf-8")
    expected = [("laufen\tV;PST", "lief"), ("", "x"), ("Vau\t", "Vau")]
    assert list(read_pairs((table,), (0, 1, 2))) == expected
    files = {"l": "laufen\n\nVau\n", "f": "lief\nx\nVau\n", "t": "V;PST\nN\n\n"}
    for suffix, lines in files.items():
        (tmp_path / f"de.{suffix}").write_text(lines, "utf-8")
    paths = find_sides(str(tmp_path / "de"), "l", "f", "t")
    assert list(read_pairs(paths)) == expected
    (tmp_path / "de.t").write_text("V;PST\nN\n", "utf-8")
    with pytest.raises(InputError, match=r"de\.l has 3 lines, but .*de\.t has 2"):
        list(read_pairs(paths))
