"""When words were spoken: dynamic time warping against all paths, and by hand."""

import itertools

import numpy as np
import pytest
import scipy.ndimage

from attn_jax.alignment.times import Timed, median_filter, warped, word_times
from attn_jax.errors import InputError
from attn_jax.pairs import Weighed


def paths(rows, columns):
    """All paths from the first corner to the last."""
    if (rows, columns) == (1, 1):
        return [[(0, 0)]]
    found = []
    for down, right in itertools.product((0, 1), repeat=2):
        if (down, right) != (0, 0) and rows > down and columns > right:
            end = (rows - 1, columns - 1)
            found += [[*path, end] for path in paths(rows - down, columns - right)]
    return found


@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (4, 4), (3, 5)])
def test_the_path_is_the_best_of_all(shape, generator):
    scores = generator.normal(size=shape)
    found = list(zip(*map(np.ndarray.tolist, warped(scores)), strict=True))
    assert found == max(paths(*shape), key=lambda path: sum(scores[place] for place in path))


def test_the_median_is_that_of_scipy(generator):
    values = generator.normal(size=(2, 3, 9))
    expected = scipy.ndimage.median_filter(values, (1, 1, 5), mode="mirror")
    np.testing.assert_array_equal(median_filter(values, 5), expected)


def spoken(words):
    """Tokens that are each heard for two annotations, in the second of two layers."""
    weights = np.full((2, 1, len(words), 2 * len(words)), 0.1)
    for row in range(len(words)):
        weights[1, 0, row, 2 * row : 2 * row + 2] = 1
    tokens = ["<|en|>", "▁to", "day", "▁we", "</s>"]
    return Weighed([""] * 10, tokens, weights, target_words=words)


def test_words_begin_where_their_first_token_does():
    pair = spoken([-1, 0, 0, 1, -1])
    expected = [Timed("today", 0.0, 0.6), Timed("we", 0.6, 0.8)]
    assert word_times(pair, [(1, 0)], seconds=0.1, width=1) == [
        Timed(word, pytest.approx(start), pytest.approx(end)) for word, start, end in expected
    ]
    assert word_times(pair, seconds=0.1, width=1) == word_times(
        pair, [(1, 0)], seconds=0.1, width=1
    )


def test_refuses_what_it_cannot_read():
    pair = spoken([-1, 0, 0, 1, -1])
    with pytest.raises(InputError, match=r"no head \(2, 0\) of 2 layers and 1 heads"):
        word_times(pair, [(2, 0)])
    silent = pair._replace(source_words=[*range(9), -1])
    assert word_times(silent)[-1].end < word_times(pair)[-1].end
    with pytest.raises(InputError, match="target_words"):
        word_times(pair._replace(target_words=None))
    assert word_times(pair._replace(target_words=[-1] * 5)) == []
