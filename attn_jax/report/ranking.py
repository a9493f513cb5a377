"""Which systems of a comparison differ significantly."""

from collections.abc import Sequence

import numpy as np

from attn_jax.evaluation.significance import bleu_differs, counts_differ
from attn_jax.report.runs import Run
from attn_jax.report.systems import Systems

LEVEL = 0.05  # p-values below it count as a difference

_RULE = (
    "A new rank begins with a system whose {} differs from that of every system of the rank above: "
    "it is worse in each seed that they share (in their first runs, if they share none), and over "
    "the sentences of all these seeds together ({}, p < 0.05). So the first and the last system "
    "of a rank may differ."
)
EXPLANATION = {
    "bleu": _RULE.format("BLEU", "paired bootstrap, two-sided, 1,000 samples"),
    "exact_match": _RULE.format("exact match", "approximate randomisation, 10,000 draws"),
}


def p_value(first: list[Run], second: list[Run]) -> float:
    """The p-value of two systems being equally good, in BLEU or in exact match.

    Args:
      first, second: the runs of the system, one for each seed, with the same seeds in both.
    """
    if first[0].measure == "bleu":
        texts = ([[s["text"] for s in run.sentences] for run in runs] for runs in (first, second))
        references = [sentence["reference"] for sentence in first[0].sentences]
        return bleu_differs(*texts, references, first[0].options["data.bleu_tokenizer"])
    hits = (
        np.sum([[s["text_tokens"] == s["target"] for s in run.sentences] for run in runs], axis=0)
        for runs in (first, second)
    )
    return counts_differ(*hits)


def paired(first: list[Run], second: list[Run]) -> tuple[list[Run], list[Run]]:
    """The runs of two systems for the seeds that both have, or else the first run of each."""
    pairs = [(a, b) for a in first for b in second if a.seed == b.seed]
    ours, theirs = zip(*(pairs or [(first[0], second[0])]), strict=True)
    return list(ours), list(theirs)


def better(first: list[Run], second: list[Run]) -> bool:
    """Whether the first system is better for each seed that both have, and significantly so.

    If they have no seed in common, their first runs are compared.
    """
    ours, theirs = paired(first, second)
    if any(a.quality <= b.quality for a, b in zip(ours, theirs, strict=True)):
        return False
    return p_value(ours, theirs) < LEVEL


def ranks(systems: Systems) -> list[int]:
    """The rank of each system, best first.

    A new rank begins with a system to which every system of the rank above is `better`.
    """
    places, above = [], []
    for place, runs in enumerate(systems.values(), start=1):
        if all(better(other, runs) for other in above):
            above, rank = [], place
        above.append(runs)
        places.append(rank)
    return places


def p_values(systems: Systems, ranks: Sequence[int]) -> list[float]:
    """The p-value of each system being as good as the first of its rank; NaN for that one."""
    leaders: dict[int, list[Run]] = {}
    return [
        np.nan if leaders.setdefault(rank, runs) is runs else p_value(*paired(leaders[rank], runs))
        for runs, rank in zip(systems.values(), ranks, strict=True)
    ]
