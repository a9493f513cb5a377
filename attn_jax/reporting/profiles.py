"""Quality of systems by source length, and by source position."""

from typing import Any, NamedTuple

import numpy as np

from attn_jax.edits import edits_of
from attn_jax.evaluation.metrics import bleu, error_rate, exact_match, spaced, word_counts
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run, same_tokens, trained


class Bin(NamedTuple):
    """Sentences of a test set with sources of similar length."""

    name: str  # the range of their lengths in tokens
    places: list[int]  # their indices in the test set


def length_bins(sentences: list[dict[str, Any]], count: int = 6) -> list[Bin]:
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


def measured(run: Run, sentences: list[dict[str, Any]]) -> dict[str, float]:
    """Two metrics of sentences, by title: BLEU or exact match, and a rate of errors.

    The error rate is that of words where BLEU is measured, and otherwise that of symbols, as in
    the table of quality.
    """

    def column(name: str) -> list:
        return [sentence[name] for sentence in sentences]

    if not run.in_words:
        said, wanted = column("text_tokens"), column("target")
        return {
            "exact match, %": exact_match(said, wanted),
            "symbol error rate, %": error_rate(said, wanted),
        }
    texts, references = column("text"), column("reference")
    tokenizer = run.options["data.bleu_tokenizer"]
    score, _ = bleu(texts, references, tokenizer)
    # It is 0 without 4-grams, however good the translations are.
    has_grams = any(count >= 4 for count in word_counts(references, tokenizer))
    words = [list(map(str.split, spaced(side, tokenizer))) for side in (texts, references)]
    return {"BLEU": score if has_grams else np.nan, "word error rate, %": error_rate(*words)}


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
    first = first_run(systems)
    bins = length_bins(first.sentences)
    figures: dict[str, dict[str, np.ndarray]] = {}
    # First those with learning curves, so that a system has the same colour in all figures.
    for label, runs in (trained(systems) | systems).items():
        by_run = [
            [measured(run, [run.sentences[place] for place in group.places]) for group in bins]
            for run in runs
        ]
        for name in by_run[0][0]:
            values = np.array([[in_bin[name] for in_bin in of_run] for of_run in by_run])
            figures.setdefault(name, {})[label] = values
    if not first.in_words and not same_tokens(systems):
        del figures["symbol error rate, %"]  # the symbols of one are not those of the other
    return Profile([group.name for group in bins], figures)


def by_position(sentences: list[dict[str, Any]]) -> dict[int, float]:
    """The percentage of correct target tokens by source position, from 0, of gold alignments.

    Tokens of the reference are correct if the edits of the error rate keep them.
    """
    right: dict[int, list[bool]] = {}
    for sentence in sentences:
        kept = {place for _, place in edits_of(sentence["text_tokens"], sentence["target"]).kept}
        for place, position in enumerate(sentence["gold"]):
            right.setdefault(position, []).append(place in kept)
    return {position: 100 * float(np.mean(right[position])) for position in sorted(right)}
