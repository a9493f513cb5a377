"""Where a system is right: by the length of the source, and by the position in it."""

from typing import Any, NamedTuple

import numpy as np

from attn_jax.evaluation.metrics import bleu, error_rate, exact_match
from attn_jax.report.cells import Cell
from attn_jax.report.systems import Systems, first_run

Sentence = dict[str, Any]


class Bin(NamedTuple):
    """Sentences of a test set whose sources are of like length."""

    name: str  # the range of their lengths in tokens
    places: list[int]  # in the test set


def length_bins(sentences: list[Sentence], count: int = 6) -> list[Bin]:
    """At most `count` ranges of source length with about as many sentences each.

    Lengths are those of these tokens; the bins hold the same sentences for systems that cut the
    source into others.
    """
    lengths = np.array([len(sentence["source"]) for sentence in sentences])
    lasts = np.unique(np.quantile(lengths, np.linspace(0, 1, count + 1)[1:], method="inverted_cdf"))
    firsts = [lengths.min(), *(lasts[:-1] + 1)]
    return [
        Bin(
            f"{first}" if first == last else f"{first}–{last}",  # noqa: RUF001
            np.flatnonzero((first <= lengths) & (lengths <= last)).tolist(),
        )
        for first, last in zip(firsts, lasts, strict=True)
    ]


def measured(cell: Cell, sentences: list[Sentence]) -> dict[str, float]:
    """Two figures of sentences, by what to call them: of text its BLEU, of signs exact match."""
    said, wanted = ([one[side] for one in sentences] for side in ("hypothesis", "target"))
    errors = error_rate(said, wanted)
    if cell.in_words:
        texts, references = ([one[side] for one in sentences] for side in ("text", "reference"))
        score, _ = bleu(texts, references, cell.options["data.bleu_tokenizer"])
        return {"BLEU": score, "token error rate, %": errors}
    return {"exact match, %": exact_match(said, wanted), "symbol error rate, %": errors}


class Profile(NamedTuple):
    """Figures in ranges of source length."""

    ranges: list[str]
    figures: dict[str, dict[str, np.ndarray]]  # of each name and system [runs, ranges]

    @property
    def tells_more(self) -> bool:
        """Whether it says what the figures of the whole do not: it has several ranges."""
        return len(self.ranges) > 1


def by_length(systems: Systems) -> Profile:
    """Each of the figures of each system in each range of source length."""
    bins = length_bins(first_run(systems).sentences)
    figures: dict[str, dict[str, np.ndarray]] = {}
    for label, cells in systems.items():
        runs = [
            [measured(cell, [cell.sentences[place] for place in one.places]) for one in bins]
            for cell in cells
        ]
        for name in runs[0][0]:
            own = np.array([[found[name] for found in run] for run in runs])
            figures.setdefault(name, {})[label] = own
    return Profile([one.name for one in bins], figures)


def by_position(sentences: list[Sentence]) -> list[float]:
    """The percentage of right target tokens for each source position that they come from."""
    right: dict[int, list[bool]] = {}
    for sentence in sentences:
        for step, (token, position) in enumerate(
            zip(sentence["target"], sentence["gold"], strict=True)
        ):
            said = sentence["hypothesis"][step : step + 1]
            right.setdefault(position, []).append(said == [token])
    return [100 * float(np.mean(right[position])) for position in sorted(right)]
