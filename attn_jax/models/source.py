"""What an encoder hands to a decoder."""

from typing import NamedTuple

from jaxtyping import Array, Bool, Float, PyTree


class Summary(NamedTuple):
    """What the initial state of a recurrent decoder is computed from."""

    vector: Float[Array, "B Z"]
    states: tuple  # the last state of each layer of a one-directional recurrent encoder, else ()


class Source(NamedTuple):
    """A batch of encoded sentences, as decoders take it."""

    projected: PyTree  # what the decoder's `project` returns, such as `KeysAndValues`
    mask: Bool[Array, "B S"]
    summary: Summary
