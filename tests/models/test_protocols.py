"""The project's own cells, encoders and decoders have what the protocols promise."""

import inspect

import pytest

from attn_jax.models.choices import DECODERS, ENCODERS
from attn_jax.models.protocols import Cell, Decoder, Encoder
from attn_jax.models.recurrent import CELLS
from tests.drawn import drawn
from tests.options import model_options

PARTS = [
    *((Cell, cell) for cell in CELLS.values()),
    *((Encoder, encoder) for encoder in dict.fromkeys(ENCODERS.values())),
    *((Decoder, decoder) for decoder in DECODERS.values()),
]


def parameters(function):
    """The parameters that a caller may give by position or by name, after `self`."""
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("protocol", "part"), PARTS, ids=lambda kind: kind.__name__)
def test_methods_take_what_the_protocol_says(protocol, part):
    methods = [
        name
        for name in ("__init__", "__call__", "begin", "output", "project", "start", "step")
        if name in vars(protocol)
    ]
    assert len(methods) >= 2
    for name in methods:
        promised, own = (parameters(getattr(kind, name)) for kind in (protocol, part))
        # Built-in parts are always given `rng`, so that they may have no default for it.
        assert [of[:2] for of in own] == [of[:2] for of in promised], name


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_models_consist_of_parts_that_have_all_of_it(encoder, decoder):
    model = drawn(model_options(encoder=encoder, decoder=decoder), 5, 5)
    parts = [(Encoder, model.encoder), (Decoder, model.decoder)]
    if decoder != "transformer":
        parts += [(Cell, cell) for cell in model.decoder.cell.cells]
    for protocol, part in parts:
        assert isinstance(part, protocol)
