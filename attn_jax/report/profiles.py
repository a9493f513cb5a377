"""Where a system is right: by the length of the source, and by the position in it."""

from typing import Any

import numpy as np

from attn_jax.evaluation.metrics import error_rate, exact_match

Sentence = dict[str, Any]


def length_bins(sentences: list[Sentence], count: int = 6) -> list[tuple[int, int]]:
    """At most `count` ranges (first, last) of source length with about as many sentences each."""
    lengths = np.array([len(sentence["source"]) for sentence in sentences])
    lasts = np.unique(np.quantile(lengths, np.linspace(0, 1, count + 1)[1:], method="inverted_cdf"))
    firsts = [lengths.min(), *(lasts[:-1] + 1)]
    return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]


def by_length(
    sentences: list[Sentence], bins: list[tuple[int, int]]
) -> tuple[list[float], list[float]]:
    """Exact match and symbol error rate, in percent, in each range of source length."""
    exact, errors = [], []
    for first, last in bins:
        chosen = [s for s in sentences if first <= len(s["source"]) <= last]
        hypotheses = [s["hypothesis"] for s in chosen]
        references = [s["target"] for s in chosen]
        exact.append(exact_match(hypotheses, references))
        errors.append(error_rate(hypotheses, references))
    return exact, errors


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
