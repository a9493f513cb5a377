"""The tables of a page, with the difference of each system from any baseline."""

from collections.abc import Iterator
from typing import Any

from attn_jax.evaluation.metrics import METRICS
from attn_jax.reporting import differences, tables
from attn_jax.reporting.about import about
from attn_jax.reporting.answer import answer
from attn_jax.reporting.cautions import cautions
from attn_jax.reporting.comparisons import Comparison
from attn_jax.reporting.systems import TITLES


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
        "differences": list(between(comparison)) if len(systems) > 1 else None,
        "answer": answer(comparison),
        "tables": list(shown(comparison)),
        "cautions": list(cautions(systems)),
        "about": [*filter(None, [comparison.apart]), *about(systems, comparison.profile)],
    }


def between(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The differences of all systems by each metric: of each baseline, of each system."""
    labels = list(comparison.systems)
    for metric, found in differences.from_each(comparison.differences).groupby(
        "metric", sort=False
    ):
        name = str(metric)
        told: dict[str, Any] = {"metric": TITLES[name]}
        told["better"] = "higher" if METRICS[name] else "lower"
        for name in ("difference", "low", "high", "p", "holm"):
            matrix = found.pivot(index="baseline", columns="system", values=name)
            digits = 7 if name in ("p", "holm") else 2
            told[name] = matrix.reindex(labels, columns=labels).round(digits).to_numpy().tolist()
        yield told


def shown(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The tables of the page as `tables.js` reads them; it shows the p-values of any baseline."""
    for title, table, notes in tables.all_tables(comparison):
        if title == "Quality" and len(comparison.systems) > 1:
            table = table.drop(columns=tables.P, errors="ignore")
            notes = [differences.ABOUT, *(note for note in notes if note != tables.ABOUT_P)]
        rows = table.to_numpy().tolist()
        yield {"title": title, "heading": list(table.columns), "rows": rows, "notes": list(notes)}
