"""Names of attention heads for the user, who counts layers and heads from 1."""

import re

from attn_jax.errors import InputError


def head_name(layer: int, head: int) -> str:
    """The name of a head for the user, from its layer and number from 1."""
    return f"layer {layer}, head {head}"


def find_head(which: str, layers: int, heads: int, option: str) -> tuple[int, int] | None:
    """The layer and head, from 0, of a text such as `2.1`, which counts from 1; None for `mean`.

    Raises:
      InputError: there is no such layer or head.
    """
    if which == "mean":
        return None
    named = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", which)
    if not named:
        raise InputError(f"{option} must be mean or layer.head as in 2.1, got {which[:60]!r}")
    layer, head = map(int, named.groups())
    if not (1 <= layer <= layers and 1 <= head <= heads):
        raise InputError(
            f"{option}={which} does not exist: the model's last head is {layers}.{heads}"
        )
    return layer - 1, head - 1
