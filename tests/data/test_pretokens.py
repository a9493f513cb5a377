"""Training text as numbers of its pretokens, and as ids of a vocabulary."""

import sys
import tracemalloc

import numpy as np
import pytest

from attn_jax.config import Data
from attn_jax.data.batches import Ids
from attn_jax.data.parallel_text import PairFile
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import build_vocabulary
from attn_jax.data.sentences import Example, words_of
from attn_jax.tokens import EOS

EXAMPLES = [
    Example("der  hund schläft", "the dog sleeps"),
    Example("", "nothing"),
    Example("der hund", "the dog"),
    Example("\ud800 a\nb", "a \t\u00a0"),
] * 3


@pytest.mark.parametrize(("way", "cut"), [("words", words_of), ("characters", list)])
def test_sentences_are_those_that_were_cut(way, cut, monkeypatch):
    monkeypatch.setattr("attn_jax.data.pretokens.AT_ONCE", 5)
    text = cut_pairs(EXAMPLES, (way, way))
    assert list(text.source.sentences()) == [cut(example.source) for example in EXAMPLES]
    assert list(text.target.sentences()) == [cut(example.target) for example in EXAMPLES]
    assert text.target.counts()["the" if way == "words" else "d"] > 0
    assert sum(text.source.counts().values()) == len(text.source.ids)
    assert text.source.ids.dtype == np.uint8
    assert text.lengths().tolist() == [
        [len(cut(example.source)), len(cut(example.target))] for example in EXAMPLES
    ]


def test_sources_come_apart():
    text = cut_pairs([Example("a b\ta;c", "x"), Example("\tc", "x")], ("words\ttags", "words"))
    first, second = text.source.of_source(second=False), text.source.of_source(second=True)
    assert list(first.sentences()) == [["a", "b"], []]
    assert list(second.sentences()) == [["a", "c"], []]
    assert (first.counts(), second.counts()) == ({"a": 1, "b": 1}, {"a": 1, "c": 1})
    assert text.lengths().tolist() == [[2, 1], [0, 1]]


def test_a_text_is_not_held_in_memory(tmp_path, monkeypatch):
    """Reading, identifying and cutting a text take a fraction of the memory of its lines."""
    monkeypatch.setattr("attn_jax.data.pretokens.AT_ONCE", 256)
    monkeypatch.setattr("attn_jax.data.parallel_text.AT_ONCE", 256)
    line = "seven words in each line are enough\tsieben worte in jeder zeile sind genug\n"
    (tmp_path / "t.tsv").write_text(line * 100_000)
    whole = 100_000 * sum(map(sys.getsizeof, line.split("\t")))
    tracemalloc.start()
    try:
        text = cut_pairs(PairFile((tmp_path / "t.tsv",), None, held_out=False), ("words", "words"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(text.pairs) == 100_000
    assert peak < whole / 2, (peak, whole)


def test_a_text_without_a_pair_is_no_special_case():
    text = cut_pairs([], ("words", "characters"))
    assert len(text.source.ids) == len(text.pairs) == len(text.lengths()) == 0
    assert text.source.offsets.tolist() == [0]
    assert list(text.target.sentences()) == []


def test_pairs_of_another_split_are_found_by_their_text():
    text = cut_pairs(EXAMPLES, ("words", "words"))
    others = [EXAMPLES[0][:2], ("der hund schläft", "the dog sleeps"), ("", "nothing")]
    assert text.count_of(others) == 2


@pytest.mark.parametrize("level", ["word", "character", "symbol", "subword"])
def test_ids_are_those_of_each_text(level, monkeypatch):
    monkeypatch.setattr("attn_jax.data.batches.AT_ONCE", 3)
    texts = ["ein haus am see", "", "der  hund am haus x", "haus"]
    vocabulary = build_vocabulary(level, texts[:3] * 2, Data(subwords=40))
    examples = [Example(text, text) for text in texts]
    way = "characters" if level == "character" else "words"
    side = Ids(cut_pairs(examples, (way, way)).source, vocabulary)
    wanted = [vocabulary.encode(text) for text in texts]
    assert side.lengths.tolist() == list(map(len, wanted))
    width = max(side.lengths) + 1
    rows = side.padded(np.array([3, 1, 2, 2, 0]), width, [EOS])
    for row, number in zip(rows.tolist(), [3, 1, 2, 2, 0], strict=True):
        assert row == [*wanted[number], EOS] + [0] * (width - 1 - len(wanted[number]))
    chosen = np.array([True, False, True, False])
    ids = [*wanted[0], *wanted[2]]
    assert side.counts(chosen).tolist() == np.bincount(ids, minlength=len(vocabulary)).tolist()
