"""Links from weights, worked out by hand."""

import numpy as np
import pytest

from attn_jax.alignment.extraction import Argmax, Threshold
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
