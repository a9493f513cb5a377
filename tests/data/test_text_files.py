"""Parallel text: how it is read, and messages that say why it cannot be used."""

import gzip

import pytest

from attn_jax.data.text_files import check_complete, find_sides, read_pairs
from attn_jax.errors import InputError


@pytest.fixture
def prefix(tmp_path):
    (tmp_path / "t.de").write_text("ein Haus\nein Hund\n")
    (tmp_path / "t.en.gz").write_bytes(gzip.compress(b"a house\r\na dog\r\n"))
    return str(tmp_path / "t")


def read(prefix, source="de", target="en"):
    return read_pairs(find_sides(prefix, source, target))


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
        ("t", b"one column\n", r"t, line 1: expected two columns"),
        ("t", b"a\tb\tc\n", r"t, line 1: expected two columns"),
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
        check_complete(read_pairs(paths), paths)


def test_names_the_files_that_are_missing(prefix):
    with pytest.raises(InputError, match=r"neither .*t\.fr nor .*t\.fr\.gz exists"):
        read(prefix, target="fr")
    with pytest.raises(InputError, match="give the suffixes"):
        read(prefix, target="")


@pytest.mark.parametrize("name", ["t.de", "t.en.gz"])
def test_one_side_is_not_a_prefix(prefix, tmp_path, name):
    with pytest.raises(InputError, match=r"is one side of the text: give the prefix .*/t$"):
        read(str(tmp_path / name))


def test_a_file_of_two_columns_has_no_sides(tmp_path):
    (tmp_path / "t.tsv").write_text("abc\td\n")
    with pytest.raises(InputError, match=r"leave out --data\.source and --data\.target"):
        read(str(tmp_path / "t.tsv"))
