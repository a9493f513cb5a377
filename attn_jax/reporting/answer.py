"""Which attention mechanism is best for the data, in sentences with their uncertainty."""

from collections.abc import Iterator, Sequence

import numpy as np

from attn_jax.evaluation.significance import FEWEST, holm
from attn_jax.reporting.differences import Differences, of_ranks
from attn_jax.reporting.ranking import LEVEL, too_few
from attn_jax.reporting.systems import Systems, first_run
from attn_jax.reporting.tables import in_seconds

UNITS = {"bleu": "BLEU", "exact_match": "points of exact match"}
ABOUT = (
    "p-values are those of the report, adjusted for all pairs of systems (Holm); 95 % are over the "
    "test sentences. Not to differ significantly is not to be equal."
)
MOST_NAMED = 8
AT_MOST, AT_LEAST = "\N{LESS-THAN OR EQUAL TO}", "\N{GREATER-THAN OR EQUAL TO}"


def answer(systems: Systems) -> list[str]:
    """The answer as sentences; none if there is nothing to compare."""
    sentences = len(first_run(systems).sentences)
    if len(systems) == 1:
        return []
    if sentences < FEWEST:
        few = too_few(systems) or f"{sentences} test sentences are too few for confidence intervals"
        return [f"{few}."]
    names, found = list(systems), of_ranks(systems)
    p = all_pairs(found)
    worse = [n for n in range(1, len(names)) if p[0, n] < LEVEL and found.difference[n, 0] > 0]
    top = [n for n in range(len(names)) if n not in worse]
    unit = UNITS[first_run(systems).measure]
    best = {names[n]: systems[names[n]] for n in top}
    return [
        *_equals(names, top, p),
        *_beaten(names, top, worse, found, p, unit),
        *_controls(best, systems),
        *_fastest(best),
        *_limits(systems, found, unit),
    ]


def all_pairs(found: Differences) -> np.ndarray:
    """The p-values of pairs of systems, adjusted for all of them, [K, K]; 1 on the diagonal."""
    upper, adjusted = np.triu_indices(len(found.p), 1), np.ones_like(found.p)
    adjusted[upper] = holm(found.p[upper].tolist())
    return np.minimum(adjusted, adjusted.T)


def listed(names: Sequence[str]) -> str:
    """Names as in a sentence; of many, the first ones."""
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def told_p(p: float, sign: str = "=") -> str:
    """A p-value in words."""
    if p < 0.0005:
        return "p < 0.001"
    if p > 0.995:
        return "p = 1.00"
    return f"p {sign} {p:.3f}" if p < 0.1 else f"p {sign} {p:.2f}"


def _equals(names: Sequence[str], top: Sequence[int], p: np.ndarray) -> Iterator[str]:
    """Which systems are not worse than the best."""
    if len(top) == 1:
        yield f"{names[0]} is the best."
        return
    together, lowest = listed([names[n] for n in top]), min(p[0, n] for n in top[1:])
    if len(top) == 2:
        yield f"{together} do not differ significantly ({told_p(lowest)})."
    else:
        against = f"{told_p(lowest, AT_LEAST)}, each against {names[0]}"
        yield f"{together} do not differ significantly ({against})."


def _beaten(
    names: Sequence[str],
    top: Sequence[int],
    worse: Sequence[int],
    found: Differences,
    p: np.ndarray,
    unit: str,
) -> Iterator[str]:
    """By how much the best systems beat others: first those that all of them beat."""
    losers: dict[tuple[int, ...], list[int]] = {}
    for loser in worse:
        winners = (n for n in top if p[n, loser] < LEVEL and found.difference[loser, n] > 0)
        losers.setdefault(tuple(winners), []).append(loser)
    for winners, beaten in sorted(losers.items(), key=lambda each: -len(each[0])):
        told = [
            f"{names[n]} by {_number(min(found.low[n, w] for w in winners))} to "
            f"{_number(max(found.high[n, w] for w in winners))}"
            for n in beaten
        ]
        highest = max(p[w, n] for w in winners for n in beaten)
        sure = f"95 %, {told_p(highest, AT_MOST)}"
        if len(winners) < len(top):
            subject = f"Of these, only {listed([names[w] for w in winners])}"
        else:
            subject = {1: "It", 2: "Both"}.get(len(top), f"All {len(top)}")
        verb = "beats" if len(winners) == 1 else "beat"
        yield f"{subject} {verb} {listed(told)} {unit} ({sure})."


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _controls(best: Systems, systems: Systems) -> Iterator[str]:
    """That attention is not shown to help, if a control without it is among the best."""
    controls = [label for label, runs in best.items() if runs[0].is_control]
    if controls and not all(runs[0].is_control for runs in systems.values()):
        yield f"{listed(controls)} has no attention, so that attention helps is not shown here."


def _fastest(best: Systems) -> Iterator[str]:
    """Which of several best systems trains fastest."""
    if len(best) == 1:
        return
    seconds = {label: np.mean([run.seconds for run in runs]) for label, runs in best.items()}
    fast = min(seconds, key=lambda label: seconds[label])
    others = [value for label, value in seconds.items() if label != fast]
    shortest, low, high = map(in_seconds, (seconds[fast], min(others), max(others)))
    if shortest == high:
        return
    yield (
        f"Of these, {fast} trains in the shortest time, {shortest} s a run; "
        f"{'the other takes' if len(others) == 1 else 'the others take'} "
        f"{low if low == high else f'{low} to {high}'} s."
    )


def _limits(systems: Systems, found: Differences, unit: str) -> Iterator[str]:
    """Which differences test sentences and seeds leave open."""
    upper = np.triu_indices(len(found.p), 1)
    half = float(np.median((found.high - found.low)[upper])) / 2
    count = len(first_run(systems).sentences)
    if half > 0:  # else all systems have the same sentences right
        yield (
            f"{count:,} test sentences cannot tell differences under about {_number(half)} {unit} "
            "(half of a 95 % interval, median over pairs of systems)."
        )
    spread = [
        float(np.std([run.quality for run in runs], ddof=1))
        for runs in systems.values()
        if len(runs) > 1
    ]
    if spread:
        yield (
            f"Seeds of one system differ by {_number(float(np.median(spread)))} {unit} (standard "
            "deviation, median over systems)."
        )
