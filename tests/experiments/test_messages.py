"""How programs tell what the library says."""

import pytest

from attn_jax.cli.program import dashed


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("train.steps must be at least 1", "--train.steps must be at least 1"),
        ("leave out train.losses=coverage", "leave out --train.losses=coverage"),
        ("grid.model.score has no values", "--grid.model.score has no values"),
        ("runs/x/label=a,train.steps=5: damaged", "runs/x/label=a,train.steps=5: damaged"),
        ("runs/train.steps is a file", "runs/train.steps is a file"),
        ("my_score.keys fails", "my_score.keys fails"),
    ],
)
def test_options_get_dashes_and_paths_stay(said, told):
    assert dashed(said) == told
