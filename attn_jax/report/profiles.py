"""Quality of systems by source length, and by source position."""

from typing import Any, NamedTuple

import numpy as np

from attn_jax.evaluation.edits import matches
from attn_jax.evaluation.metrics import bleu, error_rate, exact_match, word_counts
from attn_jax.report.runs import Run
from attn_jax.report.systems import Systems, first_run, same_tokens

Sentence = dict[str, Any]


class Bin(NamedTuple):
    """Sentences of a test set with sources of similar length."""

    name: str  # the range of their lengths in tokens
    places: list[int]  # their indices in the test set


def length_bins(sentences: list[Sentence], count: int = 6) -> list[Bin]:
    """At most `count` ranges of source length with about the same number of sentences each.

    Lengths are in the tokens of these sentences. Systems that split the source into other tokens
    are measured on the same bins.
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


def measured(run: Run, sentences: list[Sentence]) -> dict[str, float]:
    """Two metrics of sentences, by title: BLEU (words) or exact match, and an error rate."""
    said, wanted = (
        [sentence[side] for sentence in sentences] for side in ("text_tokens", "target")
    )
    errors = error_rate(said, wanted)
    if run.in_words:
        texts, references = (
            [sentence[side] for sentence in sentences] for side in ("text", "reference")
        )
        name = run.options["data.bleu_tokenizer"]
        score, _ = bleu(texts, references, name)
        # It is 0 without 4-grams, however good the translations are.
        has_grams = any(count >= 4 for count in word_counts(references, name))
        return {"BLEU": score if has_grams else np.nan, "token error rate, %": errors}
    return {"exact match, %": exact_match(said, wanted), "symbol error rate, %": errors}


class Profile(NamedTuple):
    """Metrics in ranges of source length."""

    ranges: list[str]
    figures: dict[str, dict[str, np.ndarray]]  # by title of metric and by system, [runs, ranges]

    @property
    def tells_more(self) -> bool:
        """Whether it has several ranges, and so tells more than metrics of the whole test set."""
        return len(self.ranges) > 1


def by_length(systems: Systems) -> Profile:
    """The metrics of each system in each range of source length, as far as they can be compared."""
    bins = length_bins(first_run(systems).sentences)
    figures: dict[str, dict[str, np.ndarray]] = {}
    for label, runs in systems.items():
        by_run = [
            [measured(run, [run.sentences[place] for place in group.places]) for group in bins]
            for run in runs
        ]
        for name in by_run[0][0]:
            values = np.array([[in_bin[name] for in_bin in of_run] for of_run in by_run])
            figures.setdefault(name, {})[label] = values
    if not same_tokens(systems):
        first, *_ = figures  # the others are rates of errors in tokens
        figures = {first: figures[first]}
    return Profile([group.name for group in bins], figures)


def by_position(sentences: list[Sentence]) -> list[float]:
    """The percentage of correct target tokens for each source position, by gold alignment.

    Tokens of the reference are correct if the edits of the error rate keep them.
    """
    right: dict[int, list[bool]] = {}
    for sentence in sentences:
        kept = {place for _, place in matches(sentence["text_tokens"], sentence["target"])}
        for place, position in enumerate(sentence["gold"]):
            right.setdefault(position, []).append(place in kept)
    return [100 * float(np.mean(right[position])) for position in sorted(right)]
