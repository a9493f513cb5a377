"""What the viewer shows of a sentence: its tokens, errors, gold links, measures and weights."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attn_jax.evaluation.edits import edits_of
from attn_jax.reporting.page.budget import Limits, Room
from attn_jax.reporting.runs import Run
from attn_jax.reporting.sentences import telling_sentences
from attn_jax.reporting.systems import Systems
from attn_jax.tokens import EOS, SPECIALS, bracketed, written

MOST_STEPS = 200  # most steps shown of a sentence, which a poorly trained model may never end


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
    alignment: np.ndarray,
    reference: Sequence[str] | None = None,
    gold: Sequence[int] | None = None,
) -> dict[str, Any]:
    """A sentence under one system, without weights.

    Args:
      source: S tokens.
      target: the tokens that it wrote, at least T, with the end of the sentence if it came to that.
      alignment: the mean over layers and heads, [T, S].
      reference: the tokens that were wanted, without the end of the sentence, if known.
      gold: the source position of each token of the reference, if known.
    """
    steps = len(alignment)
    sentence: dict[str, Any] = {
        "source": list(map(bracketed, source)),
        "target": list(target[:steps]),
        "steps": len(target),
        **measures(alignment),
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
        if gold is not None:
            kept = [(said, gold[wanted]) for said, wanted in edits.kept if said < steps]
            sentence |= linked(alignment, kept)
    return sentence


def of_run(run: Run, index: int) -> dict[str, Any]:
    """A sentence of a run, and its reference as `forced` where that has weights, without these."""
    sentence, weights = run.sentences[index], run.weights[index]
    whole = weights.shape[2]
    target = written(sentence["hypothesis"], whole)
    alignment = weights[:, :, :MOST_STEPS].mean(axis=(0, 1))
    described = shown(sentence["source"], target, alignment, sentence["target"], sentence["gold"])
    if "log_probability" in sentence:
        described["confidence"] = round(sentence["log_probability"] / max(1, whole), 4)
    if "reference" in run.pictures:
        forced = of_reference(sentence, run.pictures["reference"][index])
        described["forced"] = forced
        if "missed" in forced:
            described["astray"] = forced["missed"]
    return described


def of_reference(sentence: dict[str, Any], weights: np.ndarray) -> dict[str, Any]:
    """The reference of a sentence as a system reads it, without weights.

    Args:
      sentence: as it is stored.
      weights: of the reference, [L, N, T, S].
    """
    target = [*sentence["target"], SPECIALS[EOS]]
    alignment = weights[:, :, :MOST_STEPS].mean(axis=(0, 1))
    described = shown(sentence["source"], target, alignment)
    if sentence["gold"] is not None:
        gold = sentence["gold"][: len(alignment)]
        described |= linked(alignment, list(enumerate(gold)))
    return described


def linked(alignment: np.ndarray, links: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Gold links of target and source places, and how many the largest weights miss, in percent."""
    described: dict[str, Any] = {"links": list(map(list, links))}
    if links:
        missed = [alignment[said].argmax() != position for said, position in links]
        described["missed"] = round(100 * float(np.mean(missed)), 1)
    return described


def contributions(weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Weights times the sizes of what they weigh, as shares: heads of a step sum to 1 in the mean.

    Args:
      weights: [L, N, T, S].
      sizes: of the values, [L, N, 1, S].
    """
    products = np.abs(weights) * sizes
    mean = products.sum(axis=3, keepdims=True).mean(axis=1, keepdims=True)
    return products / np.maximum(mean, 1e-30)


class Shown(NamedTuple):
    """A text of a sentence under a system, which gets weights while there is room."""

    entry: dict[str, Any]  # of the hypothesis, or of its reference
    run: Run
    index: int  # of the sentence
    of: str  # what the names of its arrays begin with

    def picture(self, name: str) -> np.ndarray | None:
        """An array of the sentence, if the run has it."""
        arrays = self.run.pictures.get(name)
        return None if arrays is None else arrays[self.index]

    @property
    def weights(self) -> np.ndarray:
        """Those of the first steps, [L, N, T, S]."""
        whole = self.picture("reference") if self.of else self.run.weights[self.index]
        assert whole is not None
        return whole[:, :, :MOST_STEPS]

    def add_mean(self, room: Room) -> None:
        """The mean over layers and heads."""
        self.entry["mean"] = room.take(self.weights.mean(axis=(0, 1)))

    def add_others(self, room: Room) -> None:
        """What else can be shown in place of the mean: the posterior, or weights times sizes."""
        posterior = self.picture(f"{self.of}posterior")
        if posterior is not None:
            self.entry["posterior"] = room.take(posterior[:MOST_STEPS])
        sizes = self.picture("sizes")
        if sizes is not None:
            shares = contributions(self.weights, sizes)
            self.entry["sized"] = room.take(shares.mean(axis=(0, 1)))

    def add_heads(self, room: Room) -> None:
        """All layers and heads, and the sizes of their values, of which only ratios matter."""
        weights, sizes = self.weights, self.picture("sizes")
        if weights.shape[0] * weights.shape[1] == 1:
            return
        self.entry["heads"] = room.take(weights)
        if sizes is not None:
            largest = np.maximum(sizes.max(axis=(1, 3), keepdims=True), 1e-30)
            self.entry["sizes"] = room.take(sizes / largest)


def split(name: str, systems: Systems, baseline: str, limits: Limits, room: Room) -> dict[str, Any]:
    """The sentences of a split under all systems, as the viewer reads them.

    While there is room, weights are added in the order of their importance, of each sentence, most
    telling first: the mean of every system; then all layers and heads of the best systems and of
    the baseline; then the mean of references; then what else can be shown; then all layers and
    heads of references.

    Args:
      name: of the split.
      systems: the first run of each is shown.
      baseline: the name of a system.
      limits: how much is to be in the page.
      room: what is left in it.
    """
    indices = telling_sentences(systems, limits.sentences)
    firsts = {label: runs[0] for label, runs in systems.items()}
    entries: dict[str, list[dict[str, Any]]] = {label: [] for label in firsts}
    for index in indices:
        for label, run in firsts.items():
            entries[label].append(of_run(run, index))
    said = [
        (label, Shown(entries[label][place], run, index, ""))
        for place, index in enumerate(indices)
        for label, run in firsts.items()
    ]
    forced = [
        (label, Shown(one.entry["forced"], one.run, one.index, "reference_"))
        for label, one in said
        if "forced" in one.entry
    ]
    detailed = {*list(firsts)[: limits.systems], baseline}
    for _, one in said:
        one.add_mean(room)
    for label, one in said:
        if label in detailed:
            one.add_heads(room)
    for _, one in forced:
        one.add_mean(room)
    for _, one in said + forced:
        one.add_others(room)
    for label, one in forced:
        if label in detailed:
            one.add_heads(room)
    first = next(iter(firsts.values()))
    return {
        "name": name,
        "sentences": [
            {
                "number": index + 1,
                "source": first.sentences[index]["source_text"],
                "reference": first.sentences[index]["reference"],
            }
            for index in indices
        ],
        "systems": [
            {
                "name": label,
                "seed": run.seed,
                "layers": run.weights[0].shape[0],
                "heads": run.weights[0].shape[1],
                "sentences": entries[label],
            }
            for label, run in firsts.items()
        ],
    }
