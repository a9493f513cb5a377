"""What the viewer shows of a sentence: tokens, errors, gold links, measures and weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.drawing.document import Limits, Page, Room, document
from attn_jax.edits import edits_of
from attn_jax.files import write_whole
from attn_jax.pairs import Weighed
from attn_jax.tokens import bracketed

MOST_STEPS = 200  # most steps shown of a sentence, which a poorly trained model may never end
MOST = 200  # pairs in a page
TITLE = "What each token looks at"


def measures(alignment: np.ndarray) -> dict[str, float]:
    """What sentences can be sorted by.

    Args:
      alignment: weights [T, S].

    Returns:
      `entropy`, of the weights of a step in nats, mean over steps, where weights are taken as
      shares of their sum; and `coverage`, the percentage of each source token's weight in all
      steps, at most 100, mean over source tokens.
    """
    sizes = np.abs(np.nan_to_num(alignment.astype(float), posinf=0, neginf=0))
    shares = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1e-30)
    entropy = -(shares * np.log(np.maximum(shares, 1e-30))).sum(axis=1).mean()
    coverage = 100 * np.minimum(sizes.sum(axis=0), 1).mean()
    return {"entropy": round(float(entropy), 3), "coverage": round(float(coverage), 1)}


def shown(
    source: Sequence[str],
    target: Sequence[str],
    alignment: np.ndarray | None,
    reference: Sequence[str] | None = None,
    gold: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A sentence under one system, without weights.

    Args:
      source: S tokens.
      target: the tokens that it wrote, at least T, with the end of the sentence if it came to that.
      alignment: the mean over layers and heads, [T, S]; None if it is not known.
      reference: the tokens that were wanted, without the end of the sentence, if known.
      gold: the source position of each token of the reference, if known.
    """
    steps = MOST_STEPS if alignment is None else len(alignment)
    sentence: dict[str, Any] = {
        "source": list(map(bracketed, source)),
        "target": list(target[:steps]),
        "steps": len(target),
        **({} if alignment is None else measures(alignment)),
    }
    if reference is not None:
        edits = edits_of(target, reference)
        count = len(edits.wrong) + len(edits.missing)
        sentence |= {
            "wanted": list(reference),
            "wrong": edits.wrong,
            "missing": edits.missing,
            "error": round(100 * count / max(1, len(reference)), 1),
        }
        if gold is not None and alignment is not None:
            kept = [(said, gold[wanted]) for said, wanted in edits.kept if said < steps]
            sentence |= linked(alignment, kept)
    return sentence


def linked(alignment: np.ndarray, links: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Gold links of target and source places, and how many the largest weights miss, in percent."""
    described: dict[str, Any] = {"links": list(map(list, links))}
    if links:
        missed = [alignment[said].argmax() != position for said, position in links]
        described["missed"] = round(100 * float(np.mean(missed)), 1)
    return described


def of_system(name: str, weights: np.ndarray, sentences: list[dict[str, Any]]) -> dict[str, Any]:
    """A system as the viewer reads it, with its sentences; the weights are of any of them."""
    layers, heads = weights.shape[:2]
    return {"name": name, "seed": None, "layers": layers, "heads": heads, "sentences": sentences}


def write_viewer(
    path: Path, texts: Sequence[tuple[str, str]], systems: Mapping[str, Sequence[Weighed]]
) -> Page:
    """Writes a page that shows pairs of texts under one or several systems, and returns it.

    Args:
      path: of the page.
      texts: sources and targets, at least one pair.
      systems: the pairs by the name of a system, which may be empty if there is only one.
    """
    room = Room(Limits())
    entries = [
        of_system(name, pairs[0].weights, [entry(pair, room) for pair in pairs[:MOST]])
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
    one = {"name": "", "comparison": None, "charts": [], "splits": [split], "errors": []}
    write_whole(path, document(TITLE, {"title": TITLE, "sets": [one], "notes": notes}))
    return Page(path)


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
