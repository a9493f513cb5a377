"""Options that have no effect on a run."""

import pytest

from attn_jax import config
from experiments.unused import USES, unused

OPTIONS = {
    "data.source": "de",
    "data.words": 5,
    "data.subwords": 50,
    "data.longest": 9,
    "data.seed": 3,
    "train.guided_head": "1.1",
    "train.sampling_steps": 3,
    "model.norm": "pre",
    "model.dropout_kind": "variational",
    "model.stack": "residual",
}


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
            {"data.source", "data.subwords"},
        ),
        (
            {"train.scheduled_sampling": 0.1, "model.encoder": "transformer"},
            {"data.longest", "data.seed", "train.sampling_steps", "model.norm"},
        ),
    ],
)
def test_what_a_run_does_not_use_is_named(options, used):
    run = config.experiment(OPTIONS | options)
    assert set(unused(run)) == OPTIONS.keys() - used
    assert config.values(run).keys() >= USES.keys()
