"""Weights of any toolkit, in one format, as a page.

A pair of sentences has tokens `source` [S] and `target` [T], `weights` [L, N, T, S] of layers and
heads, and may have gold `links`, of which each is the places of a source and a target token. A
system is a list of such pairs. As a file it is JSON, a list of tables with these names; or `.npz`,
with arrays `source_0`, `target_0`, `weights_0`, `links_0`, `source_1` and so on.
"""

import json
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.drawing.viewer import Weighed, write_viewer
from attn_jax.errors import InputError
from attn_jax.files import reading

ROUNDING = 0.05  # by which the weights of a target token may sum to more than 1
NEEDED, MAY_HAVE = ("source", "target", "weights"), ("links",)
Given = Sequence[Mapping[str, Any]]
PathLike = str | os.PathLike[str]


def page(path: PathLike, systems: PathLike | Given | Mapping[str, PathLike | Given]) -> None:
    """Writes an HTML file that shows what each token looks at, in a browser, without a network.

        attn_jax.page("a.html", [{"source": ["a", "b"], "target": ["B"], "weights": [[[[0, 1]]]]}])

    Warns of weights that look like logits, which it draws all the same.

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
    read = {name: _pairs(name, given) for name, given in named.items()}
    counts = {name: len(pairs) for name, pairs in read.items()}
    if len({*counts.values()}) > 1:
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise InputError(f"the systems must have the same pairs, got different numbers: {told}")
    first = next(iter(read.values()))
    for name, pairs in read.items():
        if told := _unlike_weights(pairs):
            warnings.warn(f"{name or 'systems'}: {told}", stacklevel=2)
    texts = [(" ".join(pair.source), " ".join(pair.target)) for pair in first]
    write_viewer(Path(path), texts, read)


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


def _pairs(name: str, given: PathLike | Given) -> list[Weighed]:
    """The pairs of a system, checked."""
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        with reading(path):
            if path.suffix == ".npz":
                entries = _of_arrays(path)
            else:
                entries = json.loads(path.read_text("utf-8-sig"))
        where = str(path)
    else:
        entries, where = given, name or "systems"
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise InputError(f"{where} must be a list of one or more pairs")
    read = [_pair(f"{where}: pair {nth}", entry) for nth, entry in enumerate(entries)]
    shapes = {pair.weights.shape[:2] for pair in read}
    if len(shapes) > 1:
        told = " and ".join(map(str, sorted(shapes)))
        raise InputError(f"{where}: pairs differ in their layers and heads: {told}")
    return read


def _of_arrays(path: Path) -> list[dict[str, Any]]:
    """The pairs in a file .npz."""
    with zipfile.ZipFile(path):  # raises an error that `reading` knows
        pass
    try:
        with np.load(path) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except ValueError as error:  # of Python objects, which could run any code
        raise InputError(f"{path}: arrays must be of numbers and texts: {error}") from error
    entries: dict[int, dict[str, Any]] = {}
    for name, array in found.items():
        of_pair, _, number = name.rpartition("_")
        if of_pair not in (*NEEDED, *MAY_HAVE) or not number.isdecimal():
            raise InputError(f"{path}: arrays are called source_0, weights_0, …, got {name!r}")
        entries.setdefault(int(number), {})[of_pair] = array
    if sorted(entries) != list(range(len(entries))):
        raise InputError(
            f"{path}: pairs must be counted from 0 without gaps, got {sorted(entries)}"
        )
    return [entries[number] for number in range(len(entries))]


def _pair(where: str, entry: Any) -> Weighed:
    """A pair, checked."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} must be a table of {', '.join(NEEDED)}")
    unknown = entry.keys() - {*NEEDED, *MAY_HAVE}
    if unknown:
        raise InputError(f"{where} has an unknown {min(map(str, unknown))!r}")
    for name in NEEDED:
        if name not in entry:
            raise InputError(f"{where} has no {name}")
    source, target = (_tokens(f"{where}: {side}", entry[side]) for side in ("source", "target"))
    weights = _numbers(f"{where}: weights", entry["weights"])
    wanted = f"[L, N, {len(target)}, {len(source)}]"
    sizes = weights.shape
    if len(sizes) != 4 or not sizes[0] * sizes[1] or sizes[2:] != (len(target), len(source)):
        raise InputError(
            f"{where}: weights must be {wanted}, of layers, heads, target and source tokens, got "
            f"{list(sizes)}"
        )
    if not np.isfinite(weights).all():
        raise InputError(f"{where}: weights must be finite")
    links = list(_links(f"{where}: links", entry.get("links", ()), source, target))
    return Weighed(source, target, weights, links)


def _tokens(where: str, given: Any) -> list[str]:
    tokens = given.tolist() if isinstance(given, np.ndarray) else given
    texts = isinstance(tokens, Sequence) and not isinstance(tokens, str)
    if not texts or not tokens or not all(isinstance(token, str) for token in tokens):
        raise InputError(f"{where} must be a list of one or more tokens, each a text")
    return list(tokens)


def _numbers(where: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} must be numbers, in rows of equal length") from error


def _links(
    where: str, given: Any, source: Sequence[str], target: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Links, checked to be within the sentences."""
    told = f"{where} must be pairs of places, of a source and a target token"
    try:
        array = np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise InputError(told) from error
    if not array.size:
        return
    sizes = len(source), len(target)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InputError(told)
    if (array < 0).any() or (array >= sizes).any():
        raise InputError(f"{where} must be within {sizes[0]} source and {sizes[1]} target tokens")
    yield from ((int(one), int(other)) for one, other in array)
