"""Options that have no effect on a run."""

import pytest

from attn_jax import config
from attn_jax.config import Model
from experiments.unused import USES, unread, unused

OPTIONS = {
    "data.source": "de",
    "data.columns": "2,1",
    "data.words": 5,
    "data.subwords": 50,
    "data.character_coverage": 0.99,
    "data.longest": 9,
    "data.seed": 3,
    "train.guided_head": "1.1",
    "train.sampling_steps": 3,
    "model.norm": "pre",
    "model.dropout_kind": "variational",
    "model.stack": "residual",
}
SMALL = {"embedding_size": 8, "annotation_size": 8, "hidden_size": 8}


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({"data.name": "reverse"}, {"data.longest", "data.seed"}),
        ({"data.name": "dates", "train.guided_alignment": 1}, {"data.seed", "train.guided_head"}),
        (
            {"model.dropout": 0.1, "model.decoder_layers": 2},
            {"data.longest", "data.seed", "model.dropout_kind", "model.stack"},
        ),
        ({"data.name": "parallel", "data.source_level": "word"}, {"data.source", "data.words"}),
        (
            {"data.name": "parallel", "data.target_level": "subword"},
            {"data.source", "data.subwords", "data.character_coverage"},
        ),
        (
            {"train.scheduled_sampling": 0.1, "model.encoder": "transformer"},
            {"data.longest", "data.seed", "train.sampling_steps", "model.norm"},
        ),
        (  # blocks are no stack of cells
            {"model.encoder": "transformer", "model.encoder_layers": 3},
            {"data.longest", "data.seed", "model.norm"},
        ),
    ],
)
def test_what_a_run_does_not_use_is_named(options, used):
    run = config.experiment(OPTIONS | options)
    assert set(unused(run)) == OPTIONS.keys() - used
    assert config.values(run).keys() >= USES.keys()


def test_a_run_that_starts_from_another_does_not_use_an_initialization():
    options = {"model.initialization": "luong"}
    assert unused(config.experiment(options)) == []
    options["train.initial"] = "runs/other"
    assert unused(config.experiment(options)) == ["model.initialization"]


@pytest.mark.parametrize(
    ("model", "expected"),
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
def test_options_that_no_part_reads_are_named(model, expected):
    assert unread(model) == expected


def test_columns_are_of_one_file():
    options = {"data.name": "parallel", "data.columns": "2,1"}
    assert unused(config.experiment(options)) == []
    both = options | {"data.source": "de", "data.target": "en"}
    assert unused(config.experiment(both)) == ["data.columns"]
