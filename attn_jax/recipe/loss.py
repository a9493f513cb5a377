"""What a loss of the weights of attention is, which training adds to the cross-entropy.

Each is a class whose fields are its settings and whose method is a pure function of one sentence
and one head:

    class Overused(Loss):
        most: float = 2.0

        def loss(self, seen):
            return jnp.maximum(seen.weights.sum(axis=0) - self.most, 0).sum()

A loss is a sum over the target tokens, and is divided as the cross-entropy is: by the tokens, or by
the sentences. Where a paper takes the mean over target tokens, this division is that mean.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from attn_jax.attention.head_names import All, Heads
from attn_jax.errors import InputError
from attn_jax.settings.value import Value, setting
from attn_jax.tokens import PAD, Batch


class Unit(Value):
    """What a loss is a mean over."""

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of them in a batch of target sentences."""
        raise NotImplementedError


class Tokens(Unit):
    """Target tokens, the end of each sentence included."""

    name = "token"

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of tokens."""
        return (target != PAD).sum()


class Sentences(Unit):
    """Sentences, as in the older papers."""

    name = "sentence"

    def count(self, target: Int[Array, "B T"]) -> Int[Array, ""]:
        """The number of sentences with any token."""
        return (target != PAD).any(axis=1).sum()


UNITS: dict[str, type[Unit]] = {one.name: one for one in (Tokens, Sentences)}


class Seen(NamedTuple):
    """What a loss sees of a pair of sentences.

    Attributes:
      weights: of attention, in float32, and 0 at padding on both sides.
      stops: the probabilities of stopping at each word, from which weights such as those of `milk`
        and `mocha` are spread; else the weights.
      source: ids, padded with `PAD`.
      target: ids, likewise, `EOS` included.
      known_links: see `links`; None unless the class says that it `needs_links`.
      step: the number of training steps done.
      rng: a random key.
    """

    weights: Float[Array, "*LN T S"]
    stops: Float[Array, "*LN T S"]
    source: Int[Array, " S"]
    target: Int[Array, " T"]
    known_links: Float[Array, "T S"] | None
    step: Int[Array, ""]
    rng: Key[Array, ""]

    @property
    def links(self) -> Float[Array, "T S"]:
        """Known links, which sum to 1 over the source for each linked token, else to 0."""
        if self.known_links is None:
            raise InputError(
                "a loss that reads seen.links says so: give its class needs_links = True"
            )
        return self.known_links

    @property
    def source_mask(self) -> Bool[Array, " S"]:
        """True at the words of the source."""
        return self.source != PAD

    @property
    def target_mask(self) -> Bool[Array, " T"]:
        """True at the tokens of the target."""
        return self.target != PAD

    @property
    def lengths(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The numbers of source words and of target tokens, at least 1."""
        sides = self.source_mask, self.target_mask
        source, target = (jnp.maximum(side.sum(), 1).astype(jnp.float32) for side in sides)
        return source, target


class Loss(Value):
    """A loss of the weights of attention: `loss` of one head, and over heads the mean of these.

    Attributes:
      weight: what it is multiplied with.
      head: whose weights it concerns: the mean of all, a single one, or all, each by itself.
    """

    may_be_own = True
    needs_links: ClassVar[bool] = False  # known links of the training pairs

    weight: float = setting(1.0, above=0)
    head: Heads = All()

    def loss(self, seen: Seen) -> Float[Array, ""]:
        """The loss of one head for a pair of sentences.

        Args:
          seen: with the weights of the head, [T, S].
        """
        raise NotImplementedError

    def over_heads(self, seen: Seen) -> Float[Array, ""]:
        """The loss of a pair of sentences. A loss that compares heads overrides it.

        Args:
          seen: with the weights of all layers and heads, [L, N, T, S].
        """
        both = (self.chosen(weights) for weights in (seen.weights, seen.stops))

        def of_head(weights: Array, stops: Array) -> Array:
            return _number(self, self.loss(seen._replace(weights=weights, stops=stops)))

        return jax.vmap(of_head)(*both).mean()

    def chosen(self, weights: Float[Array, "L N T S"]) -> Float[Array, "H T S"]:
        """Those of the heads that it concerns."""
        return self.head.weights(weights, f"train.losses: {self.word}: head")


def total(
    loss: Loss,
    weights: PyTree[Float[Array, "B L N T S"]],
    batch: Batch,
    step: Int[Array, ""],
    rng: Key[Array, " B"],
) -> Float[Array, ""]:
    """The sum of a loss over the pairs of a batch, multiplied with its weight.

    Args:
      loss: the loss.
      weights: of all layers and heads; or a pair of them and where reading stops.
      batch: the pairs; of two sources, the words of the first alone.
      step: training steps done.
      rng: a random key for each pair.

    Raises:
      InputError: it needs links, and there are none; it concerns a head that does not exist; or it
        is not a number.
    """
    if loss.needs_links and batch.links is None:
        raise InputError(f"the loss {loss.word} needs the links of the pairs")
    source, target = batch.source, batch.target
    links = batch.links if loss.needs_links else None
    real = (target != PAD)[:, None, None, :, None] & (source != PAD)[:, None, None, None, :]
    # What lies at padding may be anything, in the derivative too.
    weights, *stops = (
        jnp.where(real, each, 0).astype(jnp.promote_types(each.dtype, jnp.float32))
        for each in jax.tree.leaves(weights)
    )

    def of_pair(
        weights: Float[Array, "L N T S"],
        stops: Float[Array, "L N T S"],
        source: Int[Array, " S"],
        target: Int[Array, " T"],
        links: Float[Array, "T S"] | None,
        rng: Key[Array, ""],
    ) -> Float[Array, ""]:
        seen = Seen(weights, stops, source, target, links, step, rng)
        return _number(loss, loss.over_heads(seen))

    stopping = stops[0] if stops else weights
    return loss.weight * jax.vmap(of_pair)(weights, stopping, source, target, links, rng).sum()


def shares(weights: Float[Array, "*N T S"]) -> Float[Array, "*N T S"]:
    """Weights of which those of a token with a sum of more than 1 are rescaled to a sum of 1."""
    return weights / jnp.maximum(weights.sum(axis=-1, keepdims=True), 1)


def logarithm(weights: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Their logarithms, as if each were at least 1e-30, since sparse weights may be 0."""
    return jnp.log(jnp.maximum(weights, 1e-30))


def several(loss: Loss, heads: int) -> None:
    """Raises InputError if there is one head, and a loss compares heads."""
    if heads == 1:
        raise InputError(f"the loss {loss.word} compares heads, and there is one: give model.heads")


def _number(loss: Loss, found: Any) -> Float[Array, ""]:
    """What a loss has returned, after a check that it is one number."""
    shape = getattr(found, "shape", None)
    if shape != ():
        told = type(found).__name__ if shape is None else f"shape {list(shape)}"
        raise InputError(f"the loss {loss.word} gives {told}, not a number for a pair of sentences")
    return found
