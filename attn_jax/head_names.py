"""Names of attention heads for the user, who counts layers and heads from 1."""

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
    layer, _, head = which.partition(".")
    if not (layer.isdecimal() and head.isdecimal()):
        raise InputError(f"{option} must be mean or layer.head as in 2.1, got {which!r}")
    if not (1 <= int(layer) <= layers and 1 <= int(head) <= heads):
        raise InputError(
            f"{option}={which} does not exist: the model's last head is {layers}.{heads}"
        )
    return int(layer) - 1, int(head) - 1
