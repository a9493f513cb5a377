"""The expected best of several trials, held against all ways to draw them."""

import itertools

import numpy as np
import pytest

from attn_jax.evaluation.significance import expected_best


@pytest.mark.parametrize("larger_is_better", [True, False])
@pytest.mark.parametrize("trials", [1, 2, 3, 5])
def test_it_is_the_mean_over_all_draws(generator, trials, larger_is_better):
    values = generator.normal(size=5).round(1)
    values[3] = values[0]  # equal ones
    best = max if larger_is_better else min
    enumerated = np.mean([best(draw) for draw in itertools.product(values, repeat=trials)])
    np.testing.assert_allclose(expected_best(values, trials, larger_is_better), enumerated)


def test_with_many_draws_it_is_the_best():
    assert expected_best([3.0, 1.0, 2.0], 1000) == pytest.approx(3.0)
    assert expected_best([3.0, 1.0, 2.0], 1000, larger_is_better=False) == pytest.approx(1.0)
