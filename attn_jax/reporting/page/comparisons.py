"""The tables of a page, with the difference of each system from any baseline."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attn_jax.evaluation.metrics import METRICS
from attn_jax.reporting import differences, tables
from attn_jax.reporting.about import evaluated, labelled, made, own_tokens, shared_options
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.explanations import ABOUT, TITLE, explanations
from attn_jax.reporting.pages import Comparison
from attn_jax.reporting.ranking import about_ranks
from attn_jax.reporting.systems import first_run


def described(comparison: Comparison, baseline: str) -> dict[str, Any]:
    """What the page tells of the systems of a comparison.

    Args:
      comparison: the comparison.
      baseline: the system from which differences are shown at first.
    """
    systems = comparison.systems
    return {
        "systems": list(systems),
        "baseline": list(systems).index(baseline),
        "differences": between(comparison) if len(systems) > 1 else None,
        "answer": answer(systems),
        "tables": list(shown(comparison)),
        "cautions": list(cautions(systems)),
        "about": list(about(comparison)),
    }


def between(comparison: Comparison) -> list[dict[str, Any]]:
    """The differences of all systems by each metric: of each baseline, of each system."""
    return [
        {"metric": tables.TITLES[metric], "better": "higher" if METRICS[metric] else "lower"}
        | {
            name: np.round(values, 7 if name in ("p", "holm") else 2).tolist()
            for name, values in found._asdict().items()
        }
        for metric, found in differences.differences(comparison.systems).items()
    ]


def shown(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The tables of the page; that of quality is first."""
    systems, profile = comparison.systems, comparison.profile
    quality = without(comparison.quality, tables.P)
    notes = [*tables.about_quality(quality), *about_ranks(systems)]
    if len(systems) > 1:
        notes.insert(0, differences.ABOUT)
    yield table("Quality", quality, notes)
    yield table("Cost", comparison.cost, [tables.about_cost(comparison.cost)])
    if comparison.tuning is not None:
        yield table("Tuning", *comparison.tuning)
    if profile.tells_more:
        yield table("Length", tables.by_length(profile), [])
    if measured := explanations(systems):
        yield table(TITLE, measured, ABOUT)


def without(shown: tables.Table, column: str) -> tables.Table:
    """A table without a column."""
    kept = [nth for nth, title in enumerate(shown.heading) if title != column]
    return tables.Table(
        [shown.heading[nth] for nth in kept], [[row[nth] for nth in kept] for row in shown.rows]
    )


def table(title: str, content: tables.Table, notes: Sequence[str]) -> dict[str, Any]:
    """A table as `tables.js` reads it."""
    return {"title": title, "heading": content.heading, "rows": content.rows, "notes": list(notes)}


def about(comparison: Comparison) -> Iterator[str]:
    """What was compared, and how."""
    systems = comparison.systems
    if comparison.apart:
        yield comparison.apart
    yield evaluated(systems)
    yield from own_tokens(systems, comparison.profile)
    if shared := " ".join(shared_options(systems)):
        yield f"Options of all systems: {shared}"
    for label, options in labelled(systems).items():
        yield f"{label}: {' '.join(options) or 'only defaults'}"
    yield from made(systems)
    if first_run(systems).in_words:
        for name, signature in first_run(systems).evaluation["signatures"].items():
            yield f"{name}: {signature}"
