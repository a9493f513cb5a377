"""Figures of weights without gold links, by hand."""

import numpy as np
import pytest
import scipy.optimize

from attn_jax.alignment.judging import judged, wass_to_unif

# Of three target tokens, two look at the end of the source, which is no word.
WEIGHTS = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]])


def test_figures_by_hand():
    assert judged(WEIGHTS, [0, 1, -1, 2]) == pytest.approx(
        {
            "sharpness": 100 * (1 + 0.5 + 0.25) / 3,
            "coverage": 100 * (0.25 + 0.75 + 1 + 0.25) / 4,
            "wass_to_unif": (2 * (1 / 4 - 0.25 / 3) + (1.75 / 3 - 1 / 4)) / 2,
            "special": 100 * 1.75 / 3,
        }
    )
    assert judged(WEIGHTS)["special"] == 0


def test_wass_to_unif_is_the_cost_of_the_best_transport(generator):
    """Moving mass from any position to any other costs 1."""
    weights = generator.dirichlet(np.ones(5), 3)
    costs = 1 - np.eye(5)
    rows, columns = np.indices((5, 5))
    sums = np.concatenate(
        [rows.ravel() == np.arange(5)[:, None], columns.ravel() == np.arange(5)[:, None]]
    )
    totals = np.concatenate([weights.mean(axis=0), np.full(5, 0.2)])
    best = scipy.optimize.linprog(costs.ravel(), A_eq=sums, b_eq=totals)
    assert wass_to_unif(weights) == pytest.approx(best.fun)
    assert wass_to_unif(np.eye(4)) == 0
    assert wass_to_unif(np.eye(4)[[0, 0]]) == pytest.approx(0.75)
