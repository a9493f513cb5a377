"""`pairs.csv`: how each pair of systems differs, for other programs."""

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attn_jax.evaluation.significance import holm
from attn_jax.files import writing
from attn_jax.reporting.pages import Comparison
from attn_jax.reporting.ranking import p_value, paired
from attn_jax.reporting.systems import Systems, first_run


class Pair(NamedTuple):
    """Two systems, compared by the metric by which systems are ranked."""

    first: str
    second: str
    seeds: int  # of both, that they share; or 1, of their first runs, if they share none
    difference: float  # of the means over these seeds, the first minus the second
    p: float  # NaN if there are too few sentences


def pairs_of(systems: Systems) -> list[Pair]:
    """Each pair of systems, the better one first."""
    return [_pair(first, second, systems) for first, second in itertools.combinations(systems, 2)]


def _pair(first: str, second: str, systems: Systems) -> Pair:
    ours, theirs = paired(systems[first], systems[second])
    difference = np.mean([run.quality for run in ours]) - np.mean([run.quality for run in theirs])
    return Pair(first, second, len(ours), float(difference), p_value(ours, theirs))


def write_pairs(comparisons: Sequence[tuple[Comparison, list[Pair]]], folder: Path) -> Path:
    """Writes `pairs.csv` into a folder; returns its path."""
    names = ("comparison", "metric", "first", "second", "seeds", "difference", "p", "p_holm")
    path = folder / "pairs.csv"
    with writing(path) as (beside,), beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for comparison, pairs in comparisons:
            writer.writerows(_rows(comparison, pairs))
    return path


def _rows(comparison: Comparison, pairs: list[Pair]) -> Iterator[list]:
    """The rows of a comparison; p_holm is adjusted over all of its pairs."""
    metric = first_run(comparison.systems).measure
    for pair, adjusted in zip(pairs, holm([pair.p for pair in pairs]), strict=True):
        told = ["" if np.isnan(p) else p for p in (pair.p, adjusted)]
        yield [
            comparison.name,
            metric,
            pair.first,
            pair.second,
            pair.seeds,
            f"{pair.difference:.4f}",
            *told,
        ]
