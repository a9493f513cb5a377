"""What a part of attention sees of a sentence and of the earlier steps."""

import functools
import typing
import zlib
from collections.abc import Sequence
from typing import Any

import jax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.errors import InputError

# What a part may declare that it reads.
CARRIED = ("step", "weights", "total", "context", "train_step", "layer", "head", "heads")
ALIKE = frozenset({"step", "train_step", "layer", "heads"})  # in all sentences and heads
CONSTANT = ALIKE | {"head"}  # known without having processed earlier steps


def apart(rng: Key[Array, "*any"], part: str) -> Key[Array, "*any"]:
    """Random keys of a part, so that parts draw independently of one another."""
    # Not a small number: `jax.random.split` makes the keys of these, which a part may do too.
    over = functools.partial(jax.random.fold_in, data=zlib.crc32(part.encode()))
    for _ in rng.shape:
        over = jax.vmap(over)
    return over(rng)


class NotRead(InputError, AttributeError):
    """What a part reads of `past` without saying so."""


class Past:
    """What a part sees besides its inputs.

    Attributes:
      mask: True at the real positions of the sentence.
      rng: a random key of this part in training, None in use.
      step: the number of earlier steps.
      weights: of the last step, before dropout; initially 0.
      total: the sum of the weights of all earlier steps.
      context: of the last step, of this head; initially 0.
      train_step: the number of training steps done; in use, that of the checkpoint.
      layer: which of the layers of the decoder that attend it is, from 0.
      head: which of the heads it is, from 0.
      heads: how many there are.
      own: the part's own state, after its `advance`.

    The first two are always there, `own` where the part has a `start`, and the others where its
    class says that it `reads` them. Only these are carried from step to step.
    """

    mask: Bool[Array, " S"]
    rng: Array | None
    step: Int[Array, ""]
    weights: Float[Array, " S"]
    total: Float[Array, " S"]
    context: Float[Array, " C"]
    train_step: Float[Array, ""]
    layer: Int[Array, ""]
    head: Int[Array, ""]
    heads: Int[Array, ""]
    own: Any

    def __init__(self, reader: str = "this part", **known: Any):
        vars(self).update(known, _reader=reader)

    def moved(self, own: PyTree) -> "Past":
        """The same with the next state of the part's own."""
        return self._with(own=own)

    def apart(self, part: str) -> "Past":
        """The same with the random key of a part."""
        return self if self.rng is None else self._with(rng=apart(self.rng, part))

    def axes(self, of_mask: int | None) -> "Past":
        """The axes over which `jax.vmap` goes."""
        alike = {"mask": of_mask} | dict.fromkeys(ALIKE)
        return self._with(**{name: alike.get(name, 0) for name in vars(self) if name != "_reader"})

    def _with(self, **changed: Any) -> "Past":
        past = Past()
        vars(past).update(vars(self), **changed)
        return past

    if not typing.TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Else it would train on zeros in parallel and decode on what really happened.
            if name in CARRIED:
                advice = f'reads = ("{name}",)'
            elif name == "own":
                advice = "a method `start`, which returns the first one"
            else:
                raise AttributeError(f"past has no {name!r}")
            raise NotRead(f"{self._reader} reads past.{name}: give its class {advice}")


def _flatten(past: Past) -> tuple[list, tuple]:
    known = {name: value for name, value in vars(past).items() if name != "_reader"}
    return list(known.values()), (vars(past)["_reader"], *known)


def _unflatten(names: tuple, values: Sequence) -> Past:
    reader, *known = names
    return Past(reader, **dict(zip(known, values, strict=True)))


jax.tree_util.register_pytree_node(Past, _flatten, _unflatten)
