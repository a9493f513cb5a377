"""Where a system is right: by the length of the source, and by the position in it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attn_jax.evaluation.metrics import bleu, error_rate, exact_match
from attn_jax.report.cells import Cell

Sentence = dict[str, Any]


def length_bins(sentences: list[Sentence], count: int = 6) -> list[tuple[int, int]]:
    """At most `count` ranges (first, last) of source length with about as many sentences each."""
    lengths = np.array([len(sentence["source"]) for sentence in sentences])
    lasts = np.unique(np.quantile(lengths, np.linspace(0, 1, count + 1)[1:], method="inverted_cdf"))
    firsts = [lengths.min(), *(lasts[:-1] + 1)]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def measures(cell: Cell) -> dict[str, Callable[[list[Sentence]], float]]:
    """Two measures of sentences, by what to call them: of text its BLEU, of signs exact match."""

    def errors(sentences: list[Sentence]) -> float:
        return error_rate([s["hypothesis"] for s in sentences], [s["target"] for s in sentences])

    def exact(sentences: list[Sentence]) -> float:
        return exact_match([s["hypothesis"] for s in sentences], [s["target"] for s in sentences])

    def text(sentences: list[Sentence]) -> float:
        tokenizer = cell.options["data.bleu_tokenizer"]
        return bleu([s["text"] for s in sentences], [s["reference"] for s in sentences], tokenizer)[
            0
        ]

    if cell.in_words:
        return {"BLEU": text, "token error rate, %": errors}
    return {"exact match, %": exact, "symbol error rate, %": errors}


def by_length(cell: Cell, bins: list[tuple[int, int]]) -> dict[str, list[float]]:
    """Each of the measures in each range of source length."""
    parts = [
        [s for s in cell.sentences if first <= len(s["source"]) <= last] for first, last in bins
    ]
    return {
        name: [measure(sentences) for sentences in parts]
        for name, measure in measures(cell).items()
    }


def bin_names(bins: list[tuple[int, int]]) -> list[str]:
    """What to call ranges of source length."""
    return [f"{a}" if a == b else f"{a}–{b}" for a, b in bins]  # noqa: RUF001


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
