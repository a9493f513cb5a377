"""Options that have no effect on a run."""

import functools
import re

import jax
import pytest

from attn_jax import config
from attn_jax.config import Model
from attn_jax.models.choices import DECODERS, ENCODERS, options_of
from attn_jax.models.posterior import Posterior
from attn_jax.models.readouts import OVER_POSITIONS, READOUTS
from attn_jax.models.recurrent import CELLS
from attn_jax.models.seq2seq import initialize
from attn_jax.runs.checks import USED_BY, unused, warn_of_unused
from tests.options import model_options

OPTIONS = {
    "data.source": "de",
    "data.columns": "2,1",
    "data.words": 5,
    "data.subwords": 50,
    "data.character_coverage": 0.99,
    "data.longest": 9,
    "data.seed": 3,
    "train.sampling_steps": 3,
    "model.norm": "pre",
    "model.dropout_kind": "variational",
    "model.stack": "residual",
}


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({"data.name": "reverse"}, {"data.longest", "data.seed"}),
        ({"data.name": "dates"}, {"data.seed"}),
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
    assert {*unused([run], OPTIONS)} == OPTIONS.keys() - used
    assert config.known().keys() >= USED_BY.keys()


def idle(options):
    """Those of the options that a run with them does not use."""
    return unused([config.experiment(options)], options)


def test_a_run_that_starts_from_another_does_not_use_an_initialization():
    options = {"model.initialization": "luong"}
    assert idle(options) == []
    options["train.initial"] = "runs/other"
    assert idle(options) == ["model.initialization"]


def read_by(**options):
    """The names of the options of a model that are read while it is built."""
    read = set()

    class Watched(Model):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    model = Watched(**vars(model_options(**options)))
    # Without `jax.jit`, which would read every option to hash its arguments.
    make = functools.partial(initialize.__wrapped__, model, 5, 5)
    jax.eval_shape(make, jax.random.key(0))
    return read & {*vars(Model())}


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_parts_declare_what_they_use(encoder, decoder):
    """Every cell and every readout with each pair of encoder and decoder.

    Each model asks the score whether it is a control, also one that attends without.
    """
    small = {"embedding_size": 8, "annotation_size": 8, "hidden_size": 8, "feedforward_size": 8}
    for cell in CELLS:
        options = small | {"encoder": encoder, "decoder": decoder, "cell": cell}
        assert read_by(**options) == options_of(model_options(**options)) | {"score"}
    for readout in READOUTS:
        fed = issubclass(READOUTS[readout], Posterior)
        if fed and decoder != "luong_input_feeding":
            continue  # refused
        if readout in OVER_POSITIONS and not fed and decoder not in ("luong", "transformer"):
            continue  # refused
        if readout == "copynet" and decoder != "bahdanau":
            continue  # refused
        if readout.startswith("pointer") and decoder == "cif":
            continue  # refused
        if not READOUTS[readout].reads_weights:
            continue  # the options are copied, which reads all
        options = small | {"encoder": encoder, "decoder": decoder, "readout": readout}
        assert read_by(**options) == options_of(model_options(**options)) | {"score"}


def test_encoders_and_decoders_of_ones_own_are_taken_to_use_all():
    for part in ("encoder", "decoder"):
        assert options_of(model_options(**{part: "mine:Own"})) == vars(Model()).keys()


def runs_of(*options):
    return [config.experiment(of_run) for of_run in options]


@pytest.mark.parametrize(
    "options",
    [
        {"model.encoder": "transformer", "model.decoder": "transformer", "model.cell": "lstm"},
        {"model.norm": "pre"},
        {"model.decoder": "luong", "model.readout_size": 9},
        {"model.decoder": "cif", "model.score": "dot"},
        {"data.name": "dates", "data.longest": 9},
    ],
    ids=str,
)
def test_an_option_that_no_run_uses_is_named_in_a_warning(options):
    given, name = config.given(options), list(options)[-1]
    with pytest.warns(UserWarning, match=rf"^no run here uses {re.escape(name)}$"):
        warn_of_unused(runs_of(given), ["seed", *given])


def test_an_option_that_one_run_of_a_sweep_uses_is_used():
    transformer = {"model.encoder": "transformer", "model.decoder": "transformer"}
    names = ["model.cell", "model.norm", "model.encoder"]
    options = {"model.cell": "lstm", "model.norm": "pre"}
    assert unused(runs_of(options, options | transformer), names) == []
    assert unused(runs_of(options, options | {"seed": 1}), names) == ["model.norm"]
    assert unused(runs_of(options | transformer), names) == ["model.cell"]


def test_columns_are_of_one_file():
    options = {"data.name": "parallel", "data.columns": "2,1"}
    assert idle(options) == []
    both = options | {"data.source": "de", "data.target": "en"}
    assert idle(both) == ["data.columns"]
