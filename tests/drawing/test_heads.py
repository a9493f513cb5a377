"""The figure of each layer and head."""

import itertools

import numpy as np
import pytest

from attn_jax.drawing.heads import NOTEBOOK, SMALLEST, heads
from attn_jax.drawing.style import SCREEN, TWO_COLUMNS


def test_heads_are_drawn_layers_down_and_heads_across():
    weights = np.arange(12).reshape(2, 3, 2, 1) / 12
    notes = {(2, 3): ": 90%"}
    *all_axes, _ = heads(weights, ["x"], ["a", "b"], notes).axes
    for axes, own in zip(all_axes, weights.reshape(6, 2, 1), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), own)
    titles = [axes.get_title().replace("\n", " ") for axes in all_axes[2::3]]
    assert titles == ["layer 1, head 3", "layer 2, head 3: 90%"]


def labels(figure, axis):
    """The tokens at an axis of each panel."""
    *all_axes, _ = figure.axes
    axes = [getattr(one, axis) for one in all_axes if one.images]
    return [[label.get_text() for label in one.get_ticklabels()] for one in axes]


def of_words(layers, count, length, page=SCREEN):
    source, target = (["in", "während"] * length)[:length], (["the", "children"] * length)[:length]
    weights = np.ones((layers, count, length, length)) / length
    return heads(weights, source, target, page=page), source, target


def test_tokens_stand_at_the_left_column_and_below_the_last_row():
    figure, source, target = of_words(2, 3, 4)
    assert labels(figure, "yaxis") == [target, [], []] * 2
    assert labels(figure, "xaxis") == [[]] * 3 + [source] * 3


def test_a_layer_takes_several_rows_where_tokens_could_not_be_read():
    figure, source, target = of_words(2, 7, 15)  # 4 and 3
    assert labels(figure, "yaxis") == [target, [], [], [], target, [], []] * 2
    assert labels(figure, "xaxis") == [[], [], [], source, source, source, source] * 2


def token_of(figure):
    """Inches of a token, as they are drawn."""
    axes, shape = figure.axes[0], figure.axes[0].images[0].get_array().shape
    return min(axes.bbox.height / shape[0], axes.bbox.width / shape[1]) / figure.dpi


@pytest.mark.parametrize(
    ("layers", "count", "length", "page"),
    [(4, 4, 15, SCREEN), (4, 4, 15, TWO_COLUMNS), (1, 8, 15, SCREEN), (1, 2, 3, SCREEN)],
)
def test_tokens_and_titles_can_be_read_at_the_width_of_a_notebook(layers, count, length, page):
    figure, *_ = of_words(layers, count, length, page)
    figure.draw_without_rendering()
    width, height = figure.get_size_inches()
    assert width <= min(page.width, NOTEBOOK) + 1e-6
    assert height <= page.height
    *all_axes, _ = figure.axes
    em = token_of(figure) * 72  # in which the signs of a line have room
    for axes in all_axes:
        for label in axes.get_xticklabels() + axes.get_yticklabels():
            assert SMALLEST <= label.get_fontsize() <= em
    titles = [axes.title.get_window_extent() for axes in all_axes[:count]]
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(titles))


def test_tokens_are_left_out_where_the_figure_would_be_higher_than_a_page():
    for page, told in ((SCREEN, True), (TWO_COLUMNS, False)):
        figure, *_ = of_words(6, 8, 9, page)
        assert any(labels(figure, "yaxis")) == told
        assert figure.get_figheight() <= page.height


def test_many_heads_of_long_sentences_can_be_drawn():
    figure = heads(np.ones((2, 8, 3, 500)), ["a"] * 500, ["b"] * 3)
    assert figure.get_figwidth() <= NOTEBOOK + 1e-6
