"""Quality of systems on groups of sentences: by tag, length, and rare or unknown tokens."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from attn_jax.data.run_vocabularies import load_vocabulary
from attn_jax.data.vocabulary import Vocabulary, Words
from attn_jax.evaluation.metrics import bleu_of
from attn_jax.records import run_files
from attn_jax.reporting.printing import mean_and_deviation
from attn_jax.reporting.profiles import Bin, length_bins
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import TITLES, Systems, first_run
from attn_jax.reporting.tables import Titled
from attn_jax.tokens import BETWEEN, SPECIALS, is_second

RANKS = 100, 1_000, 10_000  # of words by frequency, the last ones of a group
ABOUT_TAGS = "A sentence counts for each of its tags."
ABOUT_RANKS = (
    "Words are ranked by their frequency in the training text, the most frequent first. A sentence "
    "counts for the rarest of its words; one with a word that the vocabulary lacks is unknown."
)
ABOUT_KNOWN = "Whether the vocabulary lacks any of the tokens."


class Breakdown(NamedTuple):
    """Groups of sentences."""

    by: str  # what they are grouped by
    groups: list[Bin]
    about: str = ""


def quality_table(systems: Systems, breakdown: Breakdown) -> Titled:
    """BLEU or exact match of each system on each group, over its runs."""
    first = first_run(systems)
    rows = [
        [
            group.name,
            f"{len(group.places):,}",
            *(
                mean_and_deviation([quality(run, group.places) for run in runs], 1)
                for runs in systems.values()
            ),
        ]
        for group in breakdown.groups
    ]
    table = pd.DataFrame(rows, columns=[breakdown.by, "sentences", *systems])
    several = any(len(runs) > 1 for runs in systems.values())
    over = ", mean ± standard deviation over seeds" if several else ""
    notes = [f"{TITLES[first.measure]} of each system{over}.", *filter(None, [breakdown.about])]
    return Titled(breakdown.by, table, notes)


def quality(run: Run, places: list[int]) -> float:
    """BLEU or exact match of some sentences; NaN for BLEU of texts without any 4 words."""
    counts = run.counts[places]
    if not run.in_words:
        return 100 * float(counts.mean())
    summed = counts.sum(axis=0)
    return float(bleu_of(summed)) if summed[7] else np.nan


def breakdowns(run: Run) -> Iterator[Breakdown]:
    """How the sentences of a run can be grouped, as far as its folder tells it."""
    grouped = [
        by_tag(run),
        Breakdown("source length in tokens", length_bins(run.sentences)),
        *(by_frequency(run, side) for side in ("source", "target")),
    ]
    yield from (found for found in grouped if len(found.groups) > 1)


def by_tag(run: Run) -> Breakdown:
    """Groups by each tag of a second source, most frequent first; none if it has no tags."""
    places: dict[str, list[int]] = {}
    tagged = run.sentences if run.options["data.second_level"] == "tag" else []
    for place, sentence in enumerate(tagged):
        for token in dict.fromkeys(filter(is_second, sentence["source"])):
            places.setdefault(token.removeprefix(BETWEEN), []).append(place)
    groups = [Bin(*of_tag) for of_tag in places.items()]
    return Breakdown("tag", sorted(groups, key=lambda one: -len(one.places)), ABOUT_TAGS)


def by_frequency(run: Run, side: str) -> Breakdown:
    """Groups by how frequent the rarest token of a side was in training, and if it is known.

    Of words, the vocabulary in the folder of the run has the order of their frequencies. Of others
    it is only asked whether they are known.
    """
    path, text = run_files.vocabulary(run.folder, side), {"target": "reference"}.get(side, side)
    if not path.is_file():
        return Breakdown(side, [])
    vocabulary, sentences = load_vocabulary(path), [one[side] for one in run.sentences]
    if isinstance(vocabulary.first, Words):
        names = ranks_of(vocabulary.first, sentences)
        usual = {name: [] for name in [*_ranges(), "unknown"]}
        by, about = f"frequency rank of the rarest {text} word", ABOUT_RANKS
    else:
        tokens = [*{token for one in sentences for token in one}]
        ids = zip(tokens, vocabulary.ids(tokens), strict=True)
        unknown = {token for token, index in ids if index in vocabulary.unknown_ids}
        names = ["some" if unknown.intersection(one) else "none" for one in sentences]
        usual = {"none": [], "some": []}
        by, about = f"unknown {text} tokens", ABOUT_KNOWN
    for place, name in enumerate(names):
        usual[name].append(place)
    return Breakdown(by, [Bin(name, places) for name, places in usual.items() if places], about)


def ranks_of(vocabulary: Vocabulary, sentences: list[list[str]]) -> list[str]:
    """The range of ranks of the rarest word of each sentence, or `unknown`."""
    tokens = vocabulary.tokens[len(SPECIALS) :]
    ranks = {token: rank for rank, token in enumerate(tokens, start=1)}
    ranges = _ranges()
    told = []
    for sentence in sentences:
        rank = max((ranks.get(word, np.inf) for word in sentence if not is_second(word)), default=1)
        within = sum(rank > last for last in RANKS)
        told.append(ranges[within] if np.isfinite(rank) else "unknown")
    return told


def _ranges() -> list[str]:
    lasts = [f"{last:,}" for last in RANKS]
    firsts = [f"{last + 1:,}" for last in (0, *RANKS)]
    within = [f"{one}–{other}" for one, other in zip(firsts, lasts, strict=False)]  # noqa: RUF001
    return [*within, f"{firsts[-1]} and more"]
