"""Gold alignments in all formats, and messages that say what is wrong with a file."""

import pytest

from attn_jax.data.gold import Gold, read_gold
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
        ("0-0\n0-3\n", 1, "line 1: the link 0-0 is counted from 0, not from 1"),
        ("3-0\n0-3\n", 0, r"sentence 1: the link 3-0 \(from 0\) is beyond the 3 source and 2"),
        ("1 1 1 S\n3 1 1 S\n", 0, "line 2: expected the numbers of one of 2 sentences"),
        ("1 1 1 P\n", 0, "contains no sure link"),
    ],
)
def test_says_what_is_wrong(tmp_path, text, first, message):
    file = tmp_path / "gold"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_gold(file, SIZES, first)
    with pytest.raises(InputError, match="cannot read"):
        read_gold(tmp_path / "none", SIZES)
