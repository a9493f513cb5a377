"""Heads of attention as the user names them, who counts layers and heads from 1."""

import re
from typing import Any

from jaxtyping import Array, Float

from attn_jax.errors import InputError
from attn_jax.settings.value import Value


def head_name(layer: int, head: int) -> str:
    """The name of a head for the user, from its layer and number from 1."""
    return f"layer {layer}, head {head}"


class Heads(Value):
    """The heads whose weights are meant: `mean`, a single one such as `2.1`, or `all`, each."""

    name = "head"
    also = ", or layer.head as in 2.1"

    @classmethod
    def from_number(cls, text: str) -> Any:
        """The single head that a text such as `2.1` stands for."""
        named = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text)
        if not named:
            raise InputError(f"head must be mean{cls.also}, got {text[:60]!r}")
        layer, head = map(int, named.groups())
        return Single(layer=layer, head=head)

    def weights(self, weights: Float[Array, "L N T S"], option: str) -> Float[Array, "H T S"]:
        """Their weights among those of all layers and heads.

        Args:
          weights: those of one sentence.
          option: what the error message calls it.

        Raises:
          InputError: there is no such layer or head.
        """
        raise NotImplementedError


class All(Heads):
    """Every head of every layer."""

    def weights(self, weights: Float[Array, "L N T S"], option: str) -> Float[Array, "H T S"]:
        """All of them."""
        return weights.reshape(-1, *weights.shape[2:])


class Head(Heads):
    """The head whose weights are meant: `mean`, or a single one, such as `2.1`."""

    def place(self, layers: int, heads: int, option: str) -> tuple[int, int] | None:
        """Its layer and number, from 0; None for the mean.

        Args:
          layers: of the model.
          heads: of each layer.
          option: what the error message calls it.

        Raises:
          InputError: there is no such layer or head.
        """
        raise NotImplementedError

    def weights(self, weights: Float[Array, "L N T S"], option: str) -> Float[Array, "1 T S"]:
        """Its weights alone."""
        layers, heads, *_ = weights.shape
        place = self.place(layers, heads, option)
        return (weights.mean(axis=(0, 1)) if place is None else weights[place])[None]


class MeanHead(Head):
    """The mean over all layers and heads."""

    name = "mean"

    def place(self, layers: int, heads: int, option: str) -> None:
        """None."""


class Single(Head):
    """One head of one layer, counted from 1."""

    layer: int = 1
    head: int = 1

    def __str__(self) -> str:
        return f"{self.layer}.{self.head}"

    brief = __str__

    def place(self, layers: int, heads: int, option: str) -> tuple[int, int]:
        """Its layer and number, from 0."""
        if not (1 <= self.layer <= layers and 1 <= self.head <= heads):
            raise InputError(
                f"{option}={self} does not exist: the model's last head is {layers}.{heads}"
            )
        return self.layer - 1, self.head - 1


HEADS: dict[str, type[Head]] = {MeanHead.name: MeanHead}
SEVERAL: dict[str, type[Heads]] = {**HEADS, All.name: All}
