"""What cells, encoders and decoders of the user's own must return."""

import pytest

from attn_jax.checks.contracts import check_returns
from attn_jax.config import Model
from attn_jax.errors import InputError

PARTS = """
from attn_jax.models.decoders import Bahdanau
from attn_jax.models.encoders import RecurrentEncoder
from attn_jax.models.recurrent import LSTM, Tanh

class Cell(Tanh):
    pass

class Forgetful(Tanh):
    def __call__(self, state, projected, hidden):
        super().__call__(state, projected, hidden)

class Twofold(Tanh):
    def __call__(self, state, projected, hidden):
        return (state, super().__call__(state, projected, hidden))

class Encoder(RecurrentEncoder):
    def __init__(self, config, *, rngs):
        super().__init__(type(config)(encoder="unidirectional", **SIZES), rngs=rngs)

class Bare(Encoder):
    def __call__(self, words, mask, rng=None):
        return super().__call__(words, mask, rng)[0]

class Narrow(Encoder):
    def __call__(self, words, mask, rng=None):
        annotations, summary = super().__call__(words, mask, rng)
        return annotations[..., :3], summary

class Decoder(Bahdanau):
    pass

class Stateless(Bahdanau):
    def advance(self, *given):
        return super().advance(*given)[1]

class Swapped(Bahdanau):
    def advance(self, *given):
        (hidden, memory), *others = super().advance(*given)
        return (memory, hidden), *others

class Headless(Bahdanau):
    def advance(self, *given):
        state, (outputs, weights) = super().advance(*given)
        return state, (outputs, weights[:, 0])

class Short(Bahdanau):
    def step(self, *given):
        state, features, weights = super().step(*given)
        return state, features, weights[:, 0]

class Unaligned(Bahdanau):
    def __call__(self, *given):
        return super().__call__(*given)[0]
"""
SIZES = {"annotation_size": 6, "embedding_size": 5, "hidden_size": 8}


@pytest.mark.parametrize(
    ("part", "name", "reason"),
    [
        ("cell", "Cell", None),
        ("cell", "Forgetful", r"must return a state \[2, 8\], got None"),
        ("cell", "Twofold", r"must return a state \[2, 8\], got \(\[2, 8\], \[2, 8\]\)"),
        ("encoder", "Encoder", None),
        ("encoder", "Bare", r"annotations \[B, S, D\] and a Summary, got \[2, 3, 6\]"),
        ("encoder", "Narrow", r"must return annotations and a vector .*, got \(\[2, 3, 3\]"),
        ("decoder", "Decoder", None),
        ("decoder", "Stateless", r"must return state, \(what the readout reads, weights\)"),
        ("decoder", "Swapped", "`advance` must return a state .*, got"),
        ("decoder", "Headless", r"weights \[B, N, S\] with B=2 and S=3, got \[2, 3\]"),
        ("decoder", "Short", r"`step` must be weights \[B, L, N, S\] .*, got \[2, 1, 3\]"),
        ("decoder", "Unaligned", r"all steps must return features, weights .*, got \[2, 4, "),
    ],
)
def test_what_own_parts_return_is_checked(tmp_path, monkeypatch, part, name, reason):
    (tmp_path / "returning_parts.py").write_text(f"SIZES = {SIZES}\n{PARTS}")
    monkeypatch.syspath_prepend(str(tmp_path))
    config = Model(**SIZES, **{part: f"returning_parts:{name}"})
    if reason is None:
        check_returns(config)
        return
    with pytest.raises(InputError, match=rf"^model\.{part}=returning_parts:{name}.*{reason}"):
        check_returns(config)
