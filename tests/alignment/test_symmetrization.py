"""Symmetrized links of both directions, worked out by hand and by published pseudo-code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax.alignment.extraction import (
    SYMMETRIZATIONS,
    Argmax,
    grow_diag,
    grow_diag_final,
    grow_diag_final_and,
    turned,
)

link_sets = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


def test_negative_weights_link_nothing_by_agreement():
    """Those of mixed heads may be negative, in one direction or in both."""
    forward, backward = np.array([[-0.5, 0.9], [0.6, -0.1]]), np.array([[-0.5, 0.4], [0.9, 0.2]])
    with np.errstate(all="raise"):
        assert SYMMETRIZATIONS["agreement"]()(forward, backward, Argmax()) == {(1, 0), (0, 1)}


def test_symmetrization_by_hand():
    # Koehn 2010, figure 4.14 in small: (2, 1) grows from the intersection; both words of (3, 3)
    # and of (5, 5) are still free, but only one word of (4, 1) is.
    forward = {(0, 0), (1, 1), (3, 3), (4, 1)}
    backward = {(0, 0), (1, 1), (2, 1), (5, 5)}
    assert grow_diag(forward, backward) == {(0, 0), (1, 1), (2, 1)}
    assert grow_diag_final_and(forward, backward) == {(0, 0), (1, 1), (2, 1), (3, 3), (5, 5)}
    assert grow_diag_final(forward, backward) == forward | backward


def koehn(forward, backward, final):
    """The pseudo-code of Koehn 2010, figure 4.14, over matrices."""
    union, found = np.zeros((5, 5), bool), np.zeros((5, 5), bool)
    for e, f in forward | backward:
        union[e, f], found[e, f] = True, (e, f) in forward and (e, f) in backward
    neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    changed = True
    while changed:
        changed = False
        for e, f in np.ndindex(5, 5):
            for de, df in neighbours if found[e, f] else ():
                x, y = e + de, f + df
                if not (0 <= x < 5 and 0 <= y < 5) or not union[x, y] or found[x, y]:
                    continue
                if not found[x].any() or not found[:, y].any():
                    found[x, y] = changed = True
    for direction in (forward, backward) if final else ():
        for e, f in np.ndindex(5, 5):
            if (e, f) in direction and final(not found[e].any(), not found[:, f].any()):
                found[e, f] = True
    return {(int(e), int(f)) for e, f in np.argwhere(found)}


@given(link_sets, link_sets)
def test_growing_equals_the_pseudo_code(forward, backward):
    assert grow_diag(forward, backward) == koehn(forward, backward, None)
    final = grow_diag_final(forward, backward)
    assert final == koehn(forward, backward, lambda e, f: e or f)
    last = grow_diag_final_and(forward, backward)
    assert last == koehn(forward, backward, lambda e, f: e and f)
    assert turned(turned(forward)) == forward


@pytest.mark.parametrize("name", SYMMETRIZATIONS)
def test_directions_that_agree_stay_as_they_are(name):
    weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.9], [0.1, 0.8, 0.1]])
    expected = {(0, 0), (2, 1), (1, 2)}
    assert SYMMETRIZATIONS[name]()(weights, weights.T, Argmax()) == expected
