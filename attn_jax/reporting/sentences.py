"""The sentences that a report shows, with what systems wrote and their weights."""

from typing import Any, NamedTuple

import numpy as np

from attn_jax.drawing.beside import Panel
from attn_jax.drawing.document import Limits, Room
from attn_jax.drawing.viewer import MOST_STEPS, linked, of_system, shown
from attn_jax.evaluation.metrics import error_rate
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run
from attn_jax.reporting.telling import MOST_DRAWN, shown_sentences
from attn_jax.tokens import BOS, EOS, SPECIALS, bracketed, written

SELF = "encoder", "decoder"  # whose words may attend to each other
SQUARE = ..., slice(MOST_STEPS), slice(MOST_STEPS)  # of weights of self-attention, the first steps


def reference_of(run: Run, index: int) -> list[str] | None:
    """The tokens of a reference; None where another toolkit has written others than its tokens."""
    sentence = run.sentences[index]
    known = run.trained or sentence["hypothesis"] == sentence["text_tokens"]
    return sentence["target"] if known else None


def panel_of(run: Run, index: int) -> Panel:
    """A sentence under a system, with at most the first `MOST_DRAWN` steps.

    Without tokens of a reference, no error is marked.
    """
    sentence, weights = run.sentences[index], run.weights[index]
    steps = written(sentence["hypothesis"], weights.shape[2])
    alignment = weights[:, :, :MOST_DRAWN].mean(axis=(0, 1))
    reference = reference_of(run, index) or sentence["hypothesis"]
    return Panel(alignment, sentence["source"], steps, reference)


def confidence(run: Run, index: int) -> float | None:
    """The log-probability per step of what a run wrote; None if its evaluation has not kept it."""
    sentence = run.sentences[index]
    if "log_probability" not in sentence:
        return None
    # Of others, it is not kept whether they came to their end.
    weights = run.weights.get(index)
    steps = len(sentence["hypothesis"]) + 1 if weights is None else weights.shape[2]
    return round(sentence["log_probability"] / max(1, steps), 4)


def of_run(run: Run, index: int) -> dict[str, Any]:
    """A sentence of a run, and its reference as `forced` where that has weights, without these."""
    sentence, weights = run.sentences[index], run.weights.get(index)
    target, alignment = sentence["hypothesis"], None
    if weights is not None:
        target = written(target, weights.shape[2])
        alignment = weights[:, :, :MOST_STEPS].mean(axis=(0, 1))
    reference = reference_of(run, index)
    described = shown(sentence["source"], target, alignment, reference, sentence["gold"])
    if reference is None:
        edits = error_rate([sentence["text_tokens"]], [sentence["target"]])
        described["error"] = round(edits, 1)
    described |= {"text": sentence["text"], "confidence": confidence(run, index)}
    if index in run.pictures.get("reference", {}):
        forced = of_reference(sentence, run.pictures["reference"][index])
        described["forced"] = forced
        if "missed" in forced:
            described["astray"] = forced["missed"]
    for part in SELF:
        if index in run.pictures.get(part, {}):
            described[part] = of_itself(sentence, run.pictures[part][index], part)
    return described


def of_itself(sentence: dict[str, Any], weights: np.ndarray, part: str) -> dict[str, Any]:
    """A sentence whose words attend to each other, without weights.

    Args:
      sentence: as it is stored.
      weights: of self-attention, [L, N, S, S] of the encoder, or [L, N, T, T] of the decoder, whose
        steps have read the start symbol and what was written before.
      part: `encoder` or `decoder`.
    """
    layers, heads, steps, _ = weights.shape
    alignment = weights[SQUARE].mean(axis=(0, 1))
    if part == "encoder":
        words = list(map(bracketed, sentence["source"]))
        described = shown(words[: len(alignment)], words, alignment)
    else:
        target = written(sentence["hypothesis"], steps)
        read = [SPECIALS[BOS], *target][: len(alignment)]
        described = shown(read, target, alignment, sentence["target"]) | {"text": sentence["text"]}
    return described | {"shape": {"layers": layers, "heads": heads}}


def of_reference(sentence: dict[str, Any], weights: np.ndarray) -> dict[str, Any]:
    """The reference of a sentence as a system reads it, without weights.

    Args:
      sentence: as it is stored.
      weights: of the reference, [L, N, T, S].
    """
    target = [*sentence["target"], SPECIALS[EOS]]
    alignment = weights[:, :, :MOST_STEPS].mean(axis=(0, 1))
    described = shown(sentence["source"], target, alignment) | {"text": sentence["reference"]}
    if sentence["gold"] is not None:
        gold = sentence["gold"][: len(alignment)]
        described |= linked(alignment, list(enumerate(gold)))
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
    place: int  # of the sentence
    of: str  # what has weights: `reference`, a name in `SELF`, or empty, the hypothesis

    def picture(self, name: str) -> np.ndarray | None:
        """An array of the sentence, if the run has it."""
        return self.run.pictures.get(name, {}).get(self.place)

    @property
    def weights(self) -> np.ndarray:
        """Those of the first steps, [L, N, T, S]."""
        whole = self.picture(self.of) if self.of else self.run.weights[self.place]
        assert whole is not None
        return whole[SQUARE] if self.of in SELF else whole[:, :, :MOST_STEPS]

    @property
    def sizes(self) -> np.ndarray | None:
        """Those of what the weights weigh, [L, N, 1, S], if they are known."""
        return None if self.of in SELF else self.picture("sizes")

    def add_mean(self, room: Room) -> None:
        """The mean over layers and heads."""
        self.entry["mean"] = room.take(self.weights.mean(axis=(0, 1)))

    def add_others(self, room: Room) -> None:
        """What else can be shown in place of the mean: the posterior, or weights times sizes."""
        posterior = self.picture(f"{self.of}_posterior".removeprefix("_"))
        if posterior is not None:
            self.entry["posterior"] = room.take(posterior[:MOST_STEPS])
        if self.sizes is not None:
            shares = contributions(self.weights, self.sizes)
            self.entry["sized"] = room.take(shares.mean(axis=(0, 1)))

    def add_heads(self, room: Room) -> None:
        """All layers and heads, and the sizes of their values, of which only ratios matter."""
        weights, sizes = self.weights, self.sizes
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
    heads of references; then self-attention, the mean and then all layers and heads.

    Args:
      name: of the split.
      systems: the first run of each is shown.
      baseline: the name of a system.
      limits: how much is to be in the page.
      room: what is left in it.
    """
    indices = shown_sentences(systems, limits.sentences)
    firsts = {label: runs[0] for label, runs in systems.items()}
    entries = {
        label: {index: of_run(run, index) for index in indices} for label, run in firsts.items()
    }
    said = [
        (label, Shown(entries[label][index], run, index, ""))
        for index in indices
        for label, run in firsts.items()
        if index in run.weights
    ]
    forced = [
        (label, Shown(one.entry["forced"], one.run, one.place, "reference"))
        for label, one in said
        if "forced" in one.entry
    ]
    within = [
        (label, Shown(one.entry[part], one.run, one.place, part))
        for part in SELF
        for label, one in said
        if part in one.entry
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
    for _, one in within:
        one.add_mean(room)
    for label, one in within:
        if label in detailed:
            one.add_heads(room)
    first = first_run(systems).sentences
    numbered = {index + 1: first[index] for index in indices}
    return {
        "name": name,
        "sentences": [
            {"number": number, "source": one["source_text"], "reference": one["reference"]}
            for number, one in numbered.items()
        ],
        "systems": [
            of_system(label, run.weights[0], list(entries[label].values())) | {"seed": run.seed}
            for label, run in firsts.items()
        ],
    }
