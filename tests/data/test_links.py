"""Links for guided alignment, and files of them that cannot be used."""

import gzip

import numpy as np
import pytest

from attn_jax.config import Data
from attn_jax.data.alignment_files import iterate_pharaoh
from attn_jax.data.links import LinkTable, links_of
from attn_jax.data.pretokens import cut_pairs
from attn_jax.data.run_vocabularies import cutting
from attn_jax.data.sentences import Example, words_of
from attn_jax.errors import InputError

EXAMPLES = [Example("a b c", "x y"), Example("d", "z")]
WORDS = {"name": "parallel", "source_level": "word", "target_level": "word"}


def read(config, examples=EXAMPLES):
    sizes = [[len(words_of(one.source)), len(words_of(one.target))] for one in examples]
    return list(links_of(config, examples, np.array(sizes)))


def write(tmp_path, text):
    file = tmp_path / "links.txt"
    file.write_text(text)
    return Data(links=str(file), **WORDS)


def test_reads_pharaoh(tmp_path):
    config = write(tmp_path, "0-1 2-0\n\n")
    assert read(config) == [{(0, 1), (2, 0)}, set()]
    (tmp_path / "l.gz").write_bytes(gzip.compress(b"10-2\r\n"))
    assert list(iterate_pharaoh(tmp_path / "l.gz")) == [{(10, 2)}]
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf0-0\n")
    assert list(iterate_pharaoh(tmp_path / "marked")) == [{(0, 0)}]


def test_made_data_has_its_own():
    examples = [Example("1 2 3", "3 2 1", np.array([2, 1, 0]))]
    assert read(Data(name="reverse"), examples) == [{(2, 0), (1, 1), (0, 2)}]


def test_links_are_to_words_of_the_first_source(tmp_path):
    (tmp_path / "links.txt").write_text("1-0\n2-0\n")
    config = Data(links=str(tmp_path / "links.txt"), columns="1,2,3", **WORDS)
    pairs = [Example("a b\tN;PL", "x"), Example("a b\tN;PL", "x")]
    with pytest.raises(InputError, match=r"2: the link 2-0 .* beyond the 2 source and 1 target"):
        links_of(config, pairs, cut_pairs(pairs, cutting(config)).lengths())


def test_weights_sum_to_one_for_words_with_links():
    table = LinkTable([{(0, 1), (2, 1), (1, 0)}, set()])
    weights = table.matrix([0, 1], source_length=3, target_length=4)
    np.testing.assert_array_equal(weights[0, :2], [[0, 1, 0], [0.5, 0, 0.5]])
    assert not weights[0, 2:].any()
    assert not weights[1].any()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n0:0\n", r"links.txt, line 2: expected links such as 0-0 2-1, got '0:0'"),
        ("0-0\n", "has 1 lines, but there are 2 training pairs"),
        ("3-0\n0-0\n", "sentence 1: the link 3-0 .* is beyond the 3 source and 2 target words$"),
        ("0-0\n0-1\n", "sentence 2: the link 0-1 .* is beyond the 1 source and 1 target words$"),
        ("1-1 3-2\n1-1\n", "fits if links are counted from 1: subtract 1 from each number$"),
        ("0-2 1-0\n0-0\n", "fits if source and target are exchanged$"),
        ("0-" + "1" * 5000 + "\n0-0\n", "line 1: expected links such as 0-0 2-1, got '0-111"),
    ],
)
def test_says_what_is_wrong(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, text))


def test_refuses_what_has_no_words():
    with pytest.raises(InputError, match="has no word alignments to guide attention with: copy"):
        read(Data(name="dates"))
    config = Data(links="x", **(WORDS | {"target_level": "subword"}))
    with pytest.raises(InputError, match=r"are between words.* got word and subword"):
        read(config)
    with pytest.raises(InputError, match="cannot read"):
        read(Data(links="/none", **WORDS))


def test_links_counted_from_1_are_warned_of(tmp_path):
    config = write(tmp_path, "1-1 2-1\n\n")
    with pytest.warns(UserWarning, match="if its links are counted from 1: subtract 1 from each"):
        assert read(config)[0] == {(1, 1), (2, 1)}


def test_words_are_counted_where_aligners_cut(tmp_path):
    examples = [Example("10\u00a0000 euros\there", "a\u3000b c")]
    assert read(write(tmp_path, "2-1 0-0\n"), examples) == [{(2, 1), (0, 0)}]
    with pytest.raises(InputError, match="beyond the 3 source and 2 target words"):
        read(write(tmp_path, "3-0 0-0\n"), examples)
