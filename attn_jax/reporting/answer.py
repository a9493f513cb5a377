"""Which attention mechanism is best for the data, in sentences with their uncertainty."""

from collections.abc import Iterator, Sequence

import pandas as pd

from attn_jax.evaluation.significance import FEWEST
from attn_jax.reporting.about import listed
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.differences import LEVEL, from_each, of_ranks, too_few
from attn_jax.reporting.printing import in_seconds
from attn_jax.reporting.systems import Systems, first_run

UNITS = {"bleu": "BLEU", "exact_match": "points of exact match"}
ABOUT = (
    "p-values are those of the report, adjusted for all pairs of systems (Holm); 95 % are over the "
    "test sentences. Not to differ significantly is not to be equal."
)
AT_MOST, AT_LEAST = "\N{LESS-THAN OR EQUAL TO}", "\N{GREATER-THAN OR EQUAL TO}"


def answer(comparison: Comparison) -> list[str]:
    """The answer as sentences; none if there is nothing to compare."""
    systems = comparison.systems
    sentences = len(first_run(systems).sentences)
    if len(systems) == 1:
        return []
    if sentences < FEWEST:
        few = too_few(systems) or f"{sentences} test sentences are too few for confidence intervals"
        return [f"{few}."]
    first, *others = systems
    found = of_ranks(comparison.differences, systems)
    each = from_each(found).set_index(["system", "baseline"])
    each["beats"] = (each["p_holm"] < LEVEL) & (each["difference"] > 0)
    worse = [label for label in others if each["beats"][first, label]]
    top = [label for label in systems if label not in worse]
    unit = UNITS[comparison.measure]
    return [
        *_equals(top, each["p_holm"]),
        *_beaten(top, worse, each, unit),
        *_controls(top, systems),
        *_fastest(comparison.runs.groupby("system", sort=False)["seconds"].mean()[top]),
        *_limits(comparison, found["high"] - found["low"], unit),
    ]


def told_p(p: float, sign: str = "=") -> str:
    """A p-value in words."""
    if p < 0.0005:
        return "p < 0.001"
    if p > 0.995:
        return "p = 1.00"
    return f"p {sign} {p:.3f}" if p < 0.1 else f"p {sign} {p:.2f}"


def _equals(top: Sequence[str], p: pd.Series) -> Iterator[str]:
    """Which systems are not worse than the best."""
    first, *others = top
    if not others:
        yield f"{first} is the best."
        return
    lowest = min(p[first, label] for label in others)
    against = (
        f"{told_p(lowest, AT_LEAST)}, each against {first}" if len(top) > 2 else told_p(lowest)
    )
    yield f"{listed(top)} do not differ significantly ({against})."


def _beaten(
    top: Sequence[str], worse: Sequence[str], each: pd.DataFrame, unit: str
) -> Iterator[str]:
    """By how much the best systems beat others: first those that all of them beat.

    Args:
      top, worse: the best systems and the others.
      each: the difference of each system from each other one, and whether it `beats` that.
      unit: of the differences.
    """
    losers: dict[tuple[str, ...], list[str]] = {}
    for loser in worse:
        winners = tuple(label for label in top if each["beats"][label, loser])
        losers.setdefault(winners, []).append(loser)
    for winners, beaten in sorted(losers.items(), key=lambda both: -len(both[0])):
        found = each.loc[[(winner, loser) for winner in winners for loser in beaten]]
        by_loser = found.groupby("baseline", sort=False)
        bounds = zip(beaten, by_loser["low"].min(), by_loser["high"].max(), strict=True)
        told = [f"{loser} by {_number(low)} to {_number(high)}" for loser, low, high in bounds]
        sure = f"95 %, {told_p(found['p_holm'].max(), AT_MOST)}"
        if len(winners) < len(top):
            subject = f"Of these, only {listed(winners)}"
        else:
            subject = {1: "It", 2: "Both"}.get(len(top), f"All {len(top)}")
        verb = "beats" if len(winners) == 1 else "beat"
        yield f"{subject} {verb} {listed(told)} {unit} ({sure})."


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def _controls(top: Sequence[str], systems: Systems) -> Iterator[str]:
    """That attention is not shown to help, if a control without it is among the best."""
    controls = [label for label, runs in systems.items() if runs[0].is_control]
    best = [label for label in controls if label in top]
    if best and len(controls) < len(systems):
        yield f"{listed(best)} has no attention, so that attention helps is not shown here."


def _fastest(seconds: pd.Series) -> Iterator[str]:
    """Which of several best systems trains fastest.

    Args:
      seconds: of a run of each of them.
    """
    seconds = seconds.dropna()  # which are not known of other toolkits
    if seconds.empty:
        return
    fast = seconds.idxmin()
    others = seconds.drop(fast)
    shortest, low, high = map(in_seconds, (seconds.min(), others.min(), others.max()))
    if others.empty or shortest == high:
        return
    yield (
        f"Of these, {fast} trains in the shortest time, {shortest} s a run; "
        f"{'the other takes' if len(others) == 1 else 'the others take'} "
        f"{low if low == high else f'{low} to {high}'} s."
    )


def _limits(comparison: Comparison, intervals: pd.Series, unit: str) -> Iterator[str]:
    """Which differences test sentences and seeds leave open.

    Args:
      comparison: of several systems.
      intervals: the widths of the 95 % of all their differences.
      unit: of the differences.
    """
    half, count = intervals.median() / 2, len(first_run(comparison.systems).sentences)
    if half > 0:  # else all systems have the same sentences right
        yield (
            f"{count:,} test sentences cannot tell differences under about {_number(half)} {unit} "
            "(half of a 95 % interval, median over pairs of systems)."
        )
    spread = comparison.runs.groupby("system")[comparison.measure].std().median()
    if spread == spread:  # not NaN, as where each system has one seed
        yield (
            f"Seeds of one system differ by {_number(spread)} {unit} (standard deviation, median "
            "over systems)."
        )
