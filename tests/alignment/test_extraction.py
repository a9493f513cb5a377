"""Links from weights, worked out by hand."""

import numpy as np
import pytest

from attn_jax.alignment.extraction import argmax, threshold
from attn_jax.data.pharaoh import pharaoh
from attn_jax.errors import InputError

WEIGHTS = np.array([[0.1, 0.7, 0.2], [0.45, 0.2, 0.35], [0.1, 0.0, 0.2]])


def test_links_of_the_largest_weights():
    # The last word has most of its weight on nothing.
    assert argmax(WEIGHTS) == {(1, 0), (0, 1)}
    assert pharaoh(argmax(WEIGHTS)) == "0-1 1-0"


def test_links_over_a_threshold():
    assert threshold(WEIGHTS) == {(1, 0), (0, 1), (2, 1)}
    with pytest.raises(InputError, match="least must be above 0 and at most 1, got 2"):
        threshold(WEIGHTS, least=2)
    assert threshold(WEIGHTS, least=0.2) == {(1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (2, 2)}
