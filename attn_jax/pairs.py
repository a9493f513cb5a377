"""Pairs of texts, and the weights of attention between their tokens, of any toolkit.

A pair has tokens `source` [S] and `target` [T], `weights` [L, N, T, S] of layers and heads, and may
have gold `links`, each the places of a source and a target token, and `source_words` and
`target_words`, the index of the word of each token. A system is a list of such pairs. As a file it
is JSON, a list of tables with these names; or `.npz`, with arrays `source_0`, `target_0`,
`weights_0`, `links_0`, `source_1` and so on.
"""

import json
import os
import warnings
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_jax.errors import InputError
from attn_jax.files import reading, writing
from attn_jax.tokens import SPECIALS, UNK

BEGINS_WORD = "▁"
ROUNDING = 0.05  # by which the weights of a target token may sum to more than 1
NEEDED, MAY_HAVE = ("source", "target", "weights"), ("links", "source_words", "target_words")


class Weighed(NamedTuple):
    """The tokens, or other units, of a pair of texts, and the weights between them."""

    source: Sequence[str]  # S
    target: Sequence[str]  # T, with the end of the sentence if it has weights
    weights: np.ndarray  # [L, N, T, S]
    links: Collection[tuple[int, int]] = ()  # those known to be right, of source and target
    # The index of the word of each token, -1 for a special token; None: each token is a word.
    source_words: Sequence[int] | None = None
    target_words: Sequence[int] | None = None


def word_indices(tokens: Sequence[str], words: Sequence[int] | None) -> Sequence[int]:
    """The index of the word of each token, -1 for a special one.

    Where none are given, each token is a word; or where some begin with ▁, as those of
    SentencePiece, each of these begins a word. `SPECIALS` but for unknown words are of no word.
    """
    if words is not None:
        return words
    pieces = any(token.startswith(BEGINS_WORD) for token in tokens)
    special = {*SPECIALS} - {SPECIALS[UNK]}
    return numbered(
        (None if token in special else token for token in tokens), BEGINS_WORD if pieces else ""
    )


def numbered(tokens: Iterable[str | None], mark: str | tuple[str, ...]) -> list[int]:
    """The index of the word of each token: one with a mark begins a word, as does the first.

    It is -1 for None, which stands for a special token.
    """
    found, count = [], 0
    for token in tokens:
        count += token is not None and (token.startswith(mark) or not count)
        found.append(-1 if token is None else count - 1)
    return found


def text_of(tokens: Sequence[str], words: Sequence[int]) -> str:
    """The text that tokens spell, with a space between words and none in them."""
    spelt: dict[int, str] = {}
    for token, word in zip(tokens, words, strict=True):
        plain = token.removeprefix(BEGINS_WORD).replace(" ", "\N{NO-BREAK SPACE}")
        spelt[word] = spelt.get(word, "") + plain
    return " ".join(spelling or "▁" for word, spelling in spelt.items() if word >= 0)


Given = Sequence[Mapping[str, Any] | Weighed]
PathLike = str | os.PathLike[str]


def save_weights(path: PathLike, pairs: Given) -> None:
    """Writes pairs to a file .npz, which `page` and `align` read.

    Args:
      path: of the file, which is replaced if it exists.
      pairs: as `page` takes them.

    Raises:
      InputError: these are not pairs, or the name does not end in .npz.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"weights are saved in a file .npz, got {path}")
    arrays: dict[str, Any] = {
        f"{name}_{number}": np.asarray(list(value) if name == "links" else value)
        for number, pair in enumerate(read_pairs("pairs", pairs))
        for name, value in pair._asdict().items()
        if name in NEEDED or (value is not None and len(value))
    }
    with writing(path) as (beside,), beside.open("wb") as file:
        np.savez(file, **arrays)


def read_pairs(name: str, given: PathLike | Given) -> list[Weighed]:
    """The pairs of a system, checked. Warns of weights that look like logits.

    Args:
      name: of the system, for messages.
      given: pairs, or the path of a file.

    Raises:
      InputError: the file cannot be read, or these are not pairs.
    """
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
    if told := _unlike_weights(read):
        warnings.warn(f"{where}: {told}", stacklevel=2)
    return read


def _unlike_weights(pairs: Sequence[Weighed]) -> str:
    """That weights look like logits; empty if they do not, or if all are links."""
    lowest = min(float(pair.weights.min()) for pair in pairs)
    most = max(float(pair.weights.sum(axis=3).max()) for pair in pairs)
    links = all(np.isin(pair.weights, (0, 1)).all() for pair in pairs)
    if links or (lowest > -ROUNDING and most < 1 + ROUNDING):
        return ""
    return (
        f"the lowest weight is {lowest:.3g}, and those of a target token sum to up to {most:.3g}: "
        "if they are logits, take their softmax; they are taken as they are"
    )


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
        missing = next(number for number in range(len(entries)) if number not in entries)
        raise InputError(
            f"{path}: pairs must be counted from 0 without gaps, and there is no pair {missing}"
        )
    return [entries[number] for number in range(len(entries))]


def _pair(where: str, entry: Any) -> Weighed:
    """A pair, checked."""
    if isinstance(entry, Weighed):
        entry = {name: value for name, value in entry._asdict().items() if value is not None}
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
    words = [
        _words(f"{where}: {side}_words", entry[f"{side}_words"], tokens)
        if f"{side}_words" in entry
        else None
        for side, tokens in (("source", source), ("target", target))
    ]
    return Weighed(source, target, weights, links, *words)


def _tokens(where: str, given: Any) -> list[str]:
    tokens = given.tolist() if isinstance(given, np.ndarray) else given
    texts = isinstance(tokens, Sequence) and not isinstance(tokens, str)
    if not texts or not tokens or not all(isinstance(token, str) for token in tokens):
        raise InputError(f"{where} must be a list of one or more tokens, each a text")
    return list(tokens)


def _words(where: str, given: Any, tokens: Sequence[str]) -> list[int]:
    """The index of the word of each token, checked."""
    array = np.asarray(given)
    fits = array.shape == (len(tokens),) and array.dtype.kind in "iu"
    if not fits or sorted({*array.tolist()} - {-1}) != list(range(array.max(initial=-1) + 1)):
        raise InputError(
            f"{where} must be the number of the word of each of the {len(tokens)} tokens, counted "
            "from 0 without gaps; -1 for tokens of no word"
        )
    return array.tolist()


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
