"""Weights of any toolkit as a page: see `attn_jax.pairs`."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from attn_jax.drawing.document import Page
from attn_jax.drawing.viewer import write_viewer
from attn_jax.errors import InputError
from attn_jax.pairs import Given, PathLike, Weighed, read_pairs

ROUNDING = 0.05  # by which the weights of a target token may sum to more than 1


def page(path: PathLike, systems: PathLike | Given | Mapping[str, PathLike | Given]) -> Page:
    """Writes an HTML file that shows what each token looks at, in a browser, without a network.

        attn_jax.page("a.html", [{"source": ["a", "b"], "target": ["B"], "weights": [[[[0, 1]]]]}])

    What is returned shows itself in a notebook. Warns of weights that look like logits, which it
    draws all the same.

    Args:
      path: of the page, which is replaced if it exists.
      systems: the pairs of a system, or a file of them, JSON or .npz; or several by their names,
        each with the same number of pairs. A pair is `source` [S] and `target` [T], tokens,
        `weights` [L, N, T, S] and, if known, gold `links`, pairs of a source and a target place.

    Raises:
      InputError: a file cannot be read, or what is given is not such pairs.
    """
    named = systems if isinstance(systems, Mapping) else {"": systems}
    if not named:
        raise InputError("there is no system to show")
    read = {name: read_pairs(name, given) for name, given in named.items()}
    counts = {name: len(pairs) for name, pairs in read.items()}
    if len({*counts.values()}) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the systems must have the same pairs, got different numbers: {told}")
    first = next(iter(read.values()))
    for name, pairs in read.items():
        if told := _unlike_weights(pairs):
            warnings.warn(f"{name or 'systems'}: {told}", stacklevel=2)
    texts = [(" ".join(pair.source), " ".join(pair.target)) for pair in first]
    return write_viewer(Path(path), texts, read)


def _unlike_weights(pairs: Sequence[Weighed]) -> str:
    """That weights look like logits; empty if they do not, or if all are links."""
    lowest = min(float(pair.weights.min()) for pair in pairs)
    most = max(float(pair.weights.sum(axis=3).max()) for pair in pairs)
    links = all(np.isin(pair.weights, (0, 1)).all() for pair in pairs)
    if links or (lowest > -ROUNDING and most < 1 + ROUNDING):
        return ""
    return (
        f"the lowest weight is {lowest:.3g}, and those of a target token sum to up to {most:.3g}: "
        "if they are logits, take their softmax; they are drawn as they are"
    )
