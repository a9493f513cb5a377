"""The viewer of alignments alone, as a page of its own."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attn_jax.files import write_whole
from attn_jax.reporting.page.budget import Limits, Room
from attn_jax.reporting.page.document import document
from attn_jax.reporting.page.sentences import MOST_STEPS, shown

MOST = 200  # pairs in a page
TITLE = "What each token looks at"


class Weighed(NamedTuple):
    """The tokens, or other units, of a pair of texts, and the weights between them."""

    source: Sequence[str]  # S
    target: Sequence[str]  # T, with the end of the sentence if it has weights
    weights: np.ndarray  # [L, N, T, S]
    links: Collection[tuple[int, int]] = ()  # those known to be right, of source and target


def write_viewer(
    path: Path, texts: Sequence[tuple[str, str]], systems: Mapping[str, Sequence[Weighed]]
) -> None:
    """Writes a page that shows pairs of texts under one or several systems.

    Args:
      path: of the page.
      texts: sources and targets, at least one pair.
      systems: the pairs by the name of a system, which may be empty if there is only one.
    """
    room = Room(Limits())
    entries = [
        {
            "name": name,
            "seed": None,
            "layers": pairs[0].weights.shape[0],
            "heads": pairs[0].weights.shape[1],
            "sentences": [entry(pair, room) for pair in pairs[:MOST]],
        }
        for name, pairs in systems.items()
    ]
    sentences = [
        {"number": number, "source": source, "target": target, "reference": None}
        for number, (source, target) in enumerate(texts[:MOST], start=1)
    ]
    split = {"name": "", "sentences": sentences, "systems": entries}
    notes = []
    if len(texts) > MOST:
        notes.append(f"The first {MOST} of {len(texts)} pairs are in this page.")
    if room.left_out:
        notes.append(f"{room.left_out} arrays of weights are not: it would be too large.")
    one = {"name": "", "comparison": None, "charts": [], "splits": [split]}
    write_whole(path, document(TITLE, {"title": TITLE, "sets": [one], "notes": notes}))


def entry(pair: Weighed, room: Room) -> dict[str, Any]:
    """A pair as the viewer reads it, as far as there is room for its weights."""
    weights = np.asarray(pair.weights)[:, :, :MOST_STEPS]
    alignment = weights.mean(axis=(0, 1))
    described = shown(pair.source, pair.target, alignment) | {"mean": room.take(alignment)}
    if pair.links:
        described["links"] = sorted(
            [target, source] for source, target in pair.links if target < len(alignment)
        )
    if weights.shape[0] * weights.shape[1] > 1:
        described["heads"] = room.take(weights)
    return described
