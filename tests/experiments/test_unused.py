"""Options that have no effect on a run."""

import pytest

from attn_jax import config
from attn_jax.runs.unused import USES, told, unread, unused
from tests.options import model_options

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
    assert set(unused(run, OPTIONS | options)) == OPTIONS.keys() - used
    assert config.values(run).keys() >= USES.keys()


def test_a_run_that_starts_from_another_does_not_use_an_initialization():
    options = {"model.initialization": "luong"}
    assert unused(config.experiment(options), options) == []
    options["train.initial"] = "runs/other"
    assert unused(config.experiment(options), options) == ["model.initialization"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (model_options(), []),
        (model_options(**SMALL, cell="lstm", stack="residual", decoder_layers=2), []),
        (model_options(**SMALL, norm="pre", positions="rotary"), ["norm", "positions"]),
        (
            model_options(
                **SMALL, encoder="transformer", decoder="transformer", cell="lstm", norm="pre"
            ),
            ["cell"],
        ),
        (model_options(**SMALL, decoder="luong", readout_size=16), ["readout_size"]),
        (model_options(**SMALL, score="dot", normalizer="sparsemax", window="local_p"), []),
        # Only the encoder consists of blocks: the decoder has a cell.
        (model_options(**SMALL, encoder="transformer", cell="lstm", norm="pre"), []),
    ],
)
def test_options_that_no_part_reads_are_named(model, expected):
    assert unread(model) == expected


def test_columns_are_of_one_file():
    options = {"data.name": "parallel", "data.columns": "2,1"}
    assert unused(config.experiment(options), options) == []
    both = options | {"data.source": "de", "data.target": "en"}
    assert unused(config.experiment(both), both) == ["data.columns"]


@pytest.mark.parametrize(
    ("parts", "used"),
    [
        ({}, True),
        ({"score": "dot"}, False),
        ({"score": "dot", "window": "local_p"}, True),
        ({"score": "dot", "window": "local_p(units=5)"}, False),
        ({"score": "additive(units=5)"}, False),  # which is what it would be otherwise, too
        ({"score": "projected(dot)"}, True),
        ({"score": "projected(additive(units=3),units=5)"}, False),
        ({"score": "pair(dot,additive)", "normalizer": "mocha"}, True),
        ({"score": "location_aware(width=5)"}, True),
        ({"score": "gmm"}, False),
    ],
)
def test_units_that_no_part_takes_are_of_no_use(parts, used):
    options = {f"model.{name}": text for name, text in parts.items()} | {"model.alignment_size": 5}
    run = config.experiment(options)
    assert unused(run, options) == ([] if used else ["model.alignment_size"])
    assert told(run, options) == (
        "" if used else "this run has no use for --model.alignment_size=5"
    )


def test_units_of_a_run_that_goes_on_are_those_of_its_recorded_parts():
    run = config.experiment({"model.score": "additive(units=5)"})
    assert unused(run, {"model.alignment_size": "5"}) == []
    run = config.experiment({"model.score": "dot"})
    assert unused(run, {"model.alignment_size": "5"}) == ["model.alignment_size"]


def test_flag_files_of_earlier_versions_have_the_usual_units_also_where_no_part_takes_them():
    options = {"model.score": "dot", "model.alignment_size": "128"}
    assert unused(config.experiment(options), options) == []
