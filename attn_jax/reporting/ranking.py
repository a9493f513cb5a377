"""Which systems of a comparison differ significantly."""

import numpy as np

from attn_jax.evaluation.significance import FEWEST, bootstrapped, exchanged_p
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import Systems, first_run

LEVEL = 0.05  # p-values below it count as a difference

_RULE = (
    "A new rank begins with a system whose {} differs from that of every system of the rank above: "
    "it is worse in each seed that they share (in their first runs, if they share none), and over "
    "the sentences of all these seeds together ({}, p < 0.05). So the first and the last system "
    "of a rank may differ."
)
# By which test systems are said to differ in a metric.
TESTS = {
    "bleu": ("BLEU", "paired bootstrap, two-sided, 10,000 samples"),
    "exact_match": ("exact match", "approximate randomisation, two-sided, 10,000 draws"),
}


def about_ranks(systems: Systems) -> list[str]:
    """How the systems are ranked, or that their test set is too small for that; not of one."""
    if len(systems) == 1:
        return []
    why = too_few(systems)
    return [
        f"{why}, so all share a rank." if why else _RULE.format(*TESTS[first_run(systems).measure])
    ]


def too_few(systems: Systems) -> str:
    """That and why the test sentences are too few for any difference; empty if they are enough."""
    first = first_run(systems)
    sentences = len(first.sentences)
    lowest = 2.0 ** (1 - sentences)  # p-value of `exchanged_p`
    if first.in_words and sentences < FEWEST:
        why = f"a p-value of BLEU needs at least {FEWEST}"
    elif not first.in_words and lowest >= LEVEL:
        why = f"p cannot be below {lowest:.2g}"
    else:
        return ""
    return f"{sentences} test sentences are too few to tell systems apart ({why})"


def p_value(first: list[Run], second: list[Run]) -> float:
    """The p-value of two systems being equally good, in BLEU or in exact match.

    NaN if there are too few sentences to tell by BLEU.

    Args:
      first, second: the runs of the system, one for each seed, with the same seeds in both.
    """
    if first[0].in_words:
        ours, theirs = (
            np.mean([run.resampled for run in runs], axis=0) for runs in (first, second)
        )
        return bootstrapped(ours - theirs, len(first[0].sentences))
    # Of the counts over all seeds, in which the same sentences are swapped.
    sums = sum(
        ours.exchanged - theirs.exchanged for ours, theirs in zip(first, second, strict=True)
    )
    hits = [sum(run.counts.sum() for run in runs) for runs in (first, second)]
    return exchanged_p(hits[0] - hits[1], np.asarray(sums))


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
    places, above, rank = [], [], 0
    for place, runs in enumerate(systems.values(), start=1):
        if all(better(other, runs) for other in above):
            above, rank = [], place
        above.append(runs)
        places.append(rank)
    return places


def p_values(systems: Systems) -> list[float]:
    """The p-value of each system being as good as the best, the first; NaN for that one itself."""
    best, *others = systems.values()
    return [np.nan, *(p_value(*paired(best, runs)) for runs in others)]
