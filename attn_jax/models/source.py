"""What an encoder hands to a decoder."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree


class Summary(NamedTuple):
    """What the initial state of a recurrent decoder is computed from."""

    vector: Float[Array, "B Z"]
    states: tuple  # the last state of each layer of a one-directional recurrent encoder, else ()


class Source(NamedTuple):
    """A batch of encoded sentences, as decoders take it."""

    projected: PyTree  # what the decoder's `project` returns, such as `KeysAndValues`
    mask: PyTree[Bool[Array, "B S"]]  # a pair if each of two sources is attended to by itself
    summary: Summary

    @property
    def first_mask(self) -> Bool[Array, "B S"]:
        """The mask of the first source; of all words if they stand in one row."""
        return jax.tree.leaves(self.mask)[0]
