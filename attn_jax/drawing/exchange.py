"""Weights of any toolkit as a page: see `attn_jax.pairs`."""

from collections.abc import Mapping
from pathlib import Path

from attn_jax.drawing.document import Page
from attn_jax.drawing.viewer import write_viewer
from attn_jax.errors import InputError
from attn_jax.pairs import Given, PathLike, read_pairs


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
    texts = [(" ".join(pair.source), " ".join(pair.target)) for pair in first]
    return write_viewer(Path(path), texts, read)
