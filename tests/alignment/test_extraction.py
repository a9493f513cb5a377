"""Links from weights, worked out by hand."""

import itertools

import numpy as np
import pytest

from attn_jax.alignment.extraction import Argmax, Monotonic, Threshold
from attn_jax.data.alignment_files import pharaoh
from attn_jax.errors import InputError

WEIGHTS = np.array([[0.1, 0.7, 0.2], [0.45, 0.2, 0.35], [0.1, 0.0, 0.2]])


def test_links_of_the_largest_weights():
    # The last word has most of its weight on nothing.
    assert Argmax()(WEIGHTS) == {(1, 0), (0, 1)}
    assert pharaoh(Argmax()(WEIGHTS)) == "0-1 1-0"


def test_links_over_a_threshold():
    assert Threshold()(WEIGHTS) == {(1, 0), (0, 1), (2, 1)}
    with pytest.raises(InputError, match="least must be more than 0 and at most 1, got 2"):
        Threshold(least=2)
    assert Threshold(least=0.2)(WEIGHTS) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (2, 2)}


@pytest.mark.parametrize("size", [(7, 3), (3, 7), (4, 4), (5, 1), (1, 1)])
def test_monotonic_links_are_the_best_of_all(size, generator):
    weights = generator.dirichlet(np.ones(size[1]), size[0])
    turned = size[0] < size[1]
    longer = weights.T if turned else weights

    def in_order(one):
        return [at for at, _ in itertools.groupby(one)] == [*range(min(size))]

    every = filter(in_order, itertools.product(range(min(size)), repeat=max(size)))
    best = max(every, key=lambda one: np.prod([longer[k, at] for k, at in enumerate(one)]))
    assert Monotonic()(weights) == {(k, at) if turned else (at, k) for k, at in enumerate(best)}


def test_monotonic_links_where_weights_are_zero():
    assert Monotonic()(np.eye(3)[::-1]) == {(0, 0), (1, 1), (2, 2)}
    assert Monotonic()(np.zeros((3, 2))) == {(0, 0), (1, 1), (1, 2)}
    assert Monotonic()(np.zeros((0, 2))) == set()
