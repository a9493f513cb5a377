"""Options that a model does not use."""

import pytest

from attn_jax.config import Model
from attn_jax.models.unread import unread

SMALL = {"embedding_size": 8, "annotation_size": 8, "hidden_size": 8}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Model(), []),
        (Model(**SMALL, cell="lstm", stack="residual", decoder_layers=2), []),
        (Model(**SMALL, norm="pre", positions="rotary"), ["norm", "positions"]),
        (
            Model(**SMALL, encoder="transformer", decoder="transformer", cell="lstm", norm="pre"),
            ["cell"],
        ),
        (Model(**SMALL, decoder="luong", readout_size=16), ["readout_size"]),
        (Model(**SMALL, alignment_size=5), []),
        (Model(**SMALL, score="dot", alignment_size=5), ["alignment_size"]),
        # Only the encoder consists of blocks: the decoder has a cell.
        (Model(**SMALL, encoder="transformer", cell="lstm", norm="pre"), []),
    ],
)
def test_options_that_no_part_reads_are_named(config, expected):
    assert unread(config) == expected
