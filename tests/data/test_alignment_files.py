"""Gold alignments in all formats, and messages that say what is wrong with a file."""

import pytest

from attn_jax.data.alignment_files import Gold, read_gold
from attn_jax.errors import InputError

SIZES = [(3, 2), (1, 4)]
GOLD = [
    Gold(frozenset({(0, 0)}), frozenset({(0, 0), (2, 1)})),
    Gold(frozenset({(0, 3)}), frozenset({(0, 3)})),
]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0-0 2?1\n0-3\n", 0),
        ("0-0 2p1\n0-3\n", 0),
        ("1-1 3?2\n1-4\n", 1),
        ("1 1 1 S\n1 3 2 P\n0002 1 4\n", 0),
        ("1 1 1 S 1.0\n2 1 4 S\n1 3 2 P 0.5\n", 0),
        ("1\t1\t1\n\n1 0 2 S\n2 1 4\n1 3 2 P\n", 0),
    ],
)
def test_formats_say_the_same(tmp_path, text, first):
    file = tmp_path / "gold"
    file.write_text(text)
    assert read_gold(file, SIZES, first) == GOLD


@pytest.mark.parametrize(
    ("text", "first", "message"),
    [
        ("0-0\n", 0, "has 1 lines, but there are 2 sentence pairs"),
        ("0-0 1:1\n\n", 0, r"line 1: expected links such as 0-0 \(sure\) or 1\?2 .*, got '1:1'"),
        ("0-0\n0-3\n", 1, "line 1: the link 0-0 is counted from 0: give gold_first=0"),
        ("3-0\n0-3\n", 0, r"sentence 1: the link 3-0 \(from 0\) is beyond the 3 source and 2"),
        ("1 1 1 S\n3 1 1 S\n", 0, "line 2: expected the numbers of one of 2 sentences"),
        ("1 1 1 P\n", 0, "contains no sure link"),
        ("1 0 0 S\n", 0, "line 1: a link 0 0 connects nothing, since this format counts words"),
        ("1-1 3-2\n1-4\n", 0, "fits if links are counted from 1: give gold_first=1"),
        ("0-2\n3-0\n", 0, "the link 0-2 .* fits if source and target are exchanged$"),
        ("1 1 3 S\n2 4 1\n", 0, "fits if source and target are exchanged$"),
        (
            "1-1 2-3\n4-1\n",
            0,
            "fits if source and target are exchanged, and links are counted from 1: give",
        ),
        ("1-1 9-9\n1-1\n", 0, r"is beyond the 3 source and 2 target words$"),
        ("0-" + "1" * 5000 + "\n0-3\n", 0, "line 1: expected links such as 0-0"),
        ("1" * 5000 + " 1 1\n", 0, "has 1 lines, but there are 2"),
        ("1 1 1\n1 1 " + "1" * 5000, 0, "line 2: expected the numbers"),
        ("0-0\n\u0660-3\n", 0, "line 2: expected links such as"),
        ("0-0\u00a00-1\n0-3\n", 0, "line 1: expected links such as"),
    ],
)
def test_says_what_is_wrong(tmp_path, text, first, message):
    file = tmp_path / "gold"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=message):
        read_gold(file, SIZES, first)
    with pytest.raises(InputError, match="cannot read"):
        read_gold(tmp_path / "none", SIZES)


def test_links_counted_from_1_are_not_read_as_from_0_in_silence(tmp_path):
    file = tmp_path / "gold"
    file.write_text("1-1 2-1\n1-2\n")
    sizes = [(4, 4), (4, 4)]
    with pytest.warns(UserWarning, match=r"no link of a first word.*: give gold_first=1$"):
        golds = read_gold(file, sizes)
    assert golds[1].sure == {(1, 2)}  # said, but not guessed
    assert read_gold(file, sizes, 1)[1].sure == {(0, 1)}
    file.write_text("1-1 2-1\n0-2\n")
    read_gold(file, sizes)


def test_zeros_before_a_number_do_not_matter(tmp_path):
    file = tmp_path / "gold"
    file.write_text("0-" + "0" * 5000 + "1\n00-3\n")
    assert read_gold(file, SIZES)[0].sure == {(0, 1)}
