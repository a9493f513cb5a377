"""Parallel text: how it is read, and messages that say why it cannot be used."""

import bz2
import gzip
import lzma
import sys

import pytest

from attn_jax.data.lines import read_lines
from attn_jax.data.parallel_text import (
    find_columns,
    find_sides,
    read_complete,
    read_pairs,
)
from attn_jax.errors import InputError


@pytest.fixture
def prefix(tmp_path):
    (tmp_path / "t.de").write_text("ein Haus\nein Hund\n")
    (tmp_path / "t.en.gz").write_bytes(gzip.compress(b"a house\r\na dog\r\n"))
    return str(tmp_path / "t")


def read(prefix, source="de", target="en"):
    return list(read_pairs(find_sides(prefix, source, target)))


def test_reads_two_sides_plain_or_gzip(prefix):
    assert read(prefix) == [("ein Haus", "a house"), ("ein Hund", "a dog")]


def test_reads_two_columns(tmp_path):
    (tmp_path / "t.tsv").write_text("\ufeffabc\ta b\nd\tc", "utf-8")
    assert read(str(tmp_path / "t.tsv"), "", "") == [("abc", "a b"), ("d", "c")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.de", b"one\n", r"t\.de has 1 lines, but .*t\.en\.gz has 2"),
        ("t.de", b"one\n\xff\n", r"t\.de, line 2: not UTF-8"),
        ("t.de", b"", r"t\.de is empty"),
        ("t.en.gz", b"no gzip", r"cannot read .*t\.en\.gz"),
        ("t.en.gz", gzip.compress(b"a house\n", mtime=0)[:-9], r"cannot read .*t\.en\.gz"),
        ("t", b"one column\n", r"t, line 1: expected two columns with .*, got 1$"),
        ("t", b"a\tb\tc\n", r"t, line 1: expected two columns .*, got 3; .*data\.columns=1,2$"),
    ],
)
def test_says_what_is_wrong(prefix, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    sides = ("", "") if name == "t" else ("de", "en")
    with pytest.raises(InputError, match=message):
        read(prefix, *sides)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.de", b"one\n \n", r"t\.de, line 2: the sentence is empty$"),
        ("t.de", b"\n\n", r"t\.de, line 1: the sentence is empty; 1 more sentences are empty"),
        ("t", b"a\t\n", r"t, line 1: the sentence is empty"),
        ("t", b"a\tb\n\n", r"t, line 2: the sentence is empty; 1 more"),
    ],
)
def test_names_empty_sentences(prefix, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    paths = find_sides(prefix, *(("", "") if name == "t" else ("de", "en")))
    with pytest.raises(InputError, match=message):
        read_complete(paths)


def test_names_the_files_that_are_missing(prefix):
    missing = r"t\.fr does not exist, nor does it with \.gz, \.bz2, \.xz, \.zst$"
    with pytest.raises(InputError, match=missing):
        read(prefix, target="fr")
    with pytest.raises(InputError, match="give the suffixes"):
        read(prefix, target="")


@pytest.mark.parametrize("name", ["t.de", "t.en.gz"])
def test_one_side_is_not_a_prefix(prefix, tmp_path, name):
    with pytest.raises(InputError, match=r"is one side of the text: give the prefix .*/t$"):
        read(str(tmp_path / name))


def test_a_file_of_two_columns_has_no_sides(tmp_path):
    (tmp_path / "t.tsv").write_text("abc\td\n")
    with pytest.raises(InputError, match=r"leave out data\.source, data\.target and"):
        read(str(tmp_path / "t.tsv"))


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKED)
def test_reads_what_python_unpacks(tmp_path, suffix):
    for side, text in {"de": "Hund\n", "en": "dog\n"}.items():
        (tmp_path / f"t.{side}{suffix}").write_bytes(PACKED[suffix](text.encode()))
    assert read(str(tmp_path / "t")) == [("Hund", "dog")]
    with pytest.raises(InputError, match=r"is one side of the text: give the prefix .*/t$"):
        read(str(tmp_path / f"t.de{suffix}"))
    for damaged in (b"no archive", PACKED[suffix](b"text" * 99)[:-9], b""):
        (tmp_path / f"t.de{suffix}").write_bytes(damaged)
        with pytest.raises(InputError, match=rf"(cannot read )?.*t\.de{suffix}"):
            read(str(tmp_path / "t"))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python reads Zstandard from 3.14 on")
def test_what_python_does_not_unpack_is_told_with_what_does(tmp_path):
    (tmp_path / "t.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    message = r"cannot read .*t\.zst: Python 3\.\d+ does not know Zstandard, which .*zstd -d$"
    with pytest.raises(InputError, match=message):
        read_lines(tmp_path / "t.zst")


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python reads Zstandard from 3.14 on")
def test_reads_zstandard(tmp_path):
    from compression import zstd

    (tmp_path / "t.zst").write_bytes(zstd.compress(b"a\n"))
    assert read_lines(tmp_path / "t.zst") == ["a"]


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [("1,3", [("a b", "c"), ("", "")]), ("3, 2", [("c", "x"), ("", "")])],
)
def test_columns_are_chosen_and_may_be_turned_round(tmp_path, columns, pairs):
    (tmp_path / "t.tsv").write_text("a b\tx\tc\n\n")
    assert list(read_pairs((tmp_path / "t.tsv",), find_columns(columns))) == pairs


def test_a_column_that_a_line_lacks_is_named(tmp_path):
    (tmp_path / "t.tsv").write_text("a\tb\tc\nd\te\n")
    with pytest.raises(InputError, match=r"line 2: there is no column 3 .*, but only 2$"):
        list(read_pairs((tmp_path / "t.tsv",), find_columns("1,3")))


@pytest.mark.parametrize(
    "text", ["1", "0,1", "1,1", "1,2,3,4", "1,2,1", "a,b", "²,1", f"1,{'2' * 5000}", "-1,2"]
)
def test_what_names_no_columns_is_refused(text):
    assert find_columns("") is None
    with pytest.raises(InputError, match=r"data\.columns must be the numbers of the source and"):
        find_columns(text)
