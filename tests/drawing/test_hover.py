"""A sentence and its weights as HTML."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from attn_jax.drawing.hover import MOST, hover

ALIGNMENT = np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])


class Cells(HTMLParser):
    """The texts of the cells of a table, by row, and all tags and their attributes."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.open = [], [], []
        self.feed(html)
        assert not self.open, "a tag is not closed"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data


def test_a_cell_has_the_weight_as_a_number_and_its_root_as_a_shade():
    cells = Cells(hover({"source": "a b c"}, ALIGNMENT, ["a", "b", " "], ["x", "</s>"]))
    assert cells.rows == [
        ["", "a", "b", "␣"],
        ["x", ".25", ".75", "0"],
        ["</s>", "1.00", "0", "0"],
    ]
    shades = [how["style"] for tag, how in cells.tags if tag == "td" and "style" in how]
    assert shades == ["--w: 0.5", "--w: 0.866", "--w: 1"]


def test_it_needs_no_network_and_no_script():
    html = hover({"source": "a b c"}, ALIGNMENT, ["a", "b", "c"], ["x", "</s>"])
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in Cells(html).tags}
    assert not re.search(r"https?:|url\(|@import", html)


@pytest.mark.parametrize("sign", ["<script>alert(1)</script>", "a&b", '"><b>', "</style>"])
def test_texts_and_tokens_are_only_text(sign):
    html = hover({sign: sign}, np.ones((1, 1)), [sign], [sign])
    assert sign not in html.replace("</style><p", "<p")  # the end of the one style sheet
    cells = Cells(html)
    assert cells.rows == [["", sign], [sign, "1.00"]]


def test_every_column_has_a_rule_for_the_pointer():
    html = hover({}, np.ones((1, 4)) / 4, list("abcd"), ["x"])
    assert {int(n) for n in re.findall(r"td:nth-child\((\d+)\)", html)} == {2, 3, 4, 5}


def test_a_long_sentence_is_cut_and_says_so():
    count = MOST + 1
    tokens = list(map(str, range(count)))
    cells = Cells(html := hover({}, np.eye(count), tokens, tokens))
    assert len(cells.rows) == len(cells.rows[0]) == MOST + 1  # with the tokens
    assert f"Only the first {MOST} tokens are shown." in html
    assert len(html) < 2e6
