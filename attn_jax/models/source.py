"""What an encoder hands to a decoder."""

from typing import NamedTuple

import jax
from jaxtyping import Array, Bool, Float, PyTree


class Summary(NamedTuple):
    """What the initial state of a recurrent decoder is computed from."""

    vector: Float[Array, "B Z"]
    states: tuple  # the last state of each layer of a one-directional recurrent encoder, else ()


class Encoded(NamedTuple):
    """What encoders make of a batch, for the decoder: of one source, or leaves in pairs, of two."""

    vectors: PyTree[Float[Array, "B S E"]]  # of the words
    annotations: PyTree[Float[Array, "B S D"]]
    mask: PyTree[Bool[Array, "B S"]]
    summary: Summary

    def each(self) -> tuple["Encoded", ...]:
        """Each of two sources."""
        of_each = zip(self.vectors, self.annotations, self.mask, strict=True)
        return tuple(Encoded(*one, self.summary) for one in of_each)


class Source(NamedTuple):
    """A batch of encoded sentences, as decoders take it."""

    projected: PyTree  # what the decoder's `project` returns, such as `Attended`
    mask: PyTree[Bool[Array, "B S"]]  # a pair if each of two sources is attended to by itself
    summary: Summary

    @property
    def first_mask(self) -> Bool[Array, "B S"]:
        """The mask of the first source; of all words if they stand in one row."""
        return jax.tree.leaves(self.mask)[0]
