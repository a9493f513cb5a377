"""`runs.csv`: a row for each run, for other programs."""

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attn_jax import config
from attn_jax.files import writing
from attn_jax.reporting.pages import Comparison
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import varying_facts


def write_runs(comparisons: Sequence[Comparison], folder: Path) -> Path:
    """Writes `runs.csv` into the folder that contains the runs of comparisons; returns its path."""
    rows = rows_of(comparisons, folder)
    names = dict.fromkeys(itertools.chain(*rows))  # in order; a run may lack some
    path = folder / "runs.csv"
    with writing(path) as (beside,), beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_of(comparisons: Sequence[Comparison], folder: Path) -> list[dict[str, Any]]:
    """A row for each run: its folder, place, metrics, cost and the facts that vary.

    Args:
      comparisons: comparisons of runs under `folder`.
      folder: the folders of runs are given relative to it.
    """
    placed = [of_run for comparison in comparisons for of_run in places(comparison)]
    varying = varying_facts([run for _, run in placed])
    return [
        {"folder": run.folder.relative_to(folder).as_posix()}
        | place
        | run.metrics
        | cost_of(run)
        | {name: config.brief(run.facts[name]) for name in varying}
        for place, run in placed
    ]


def places(comparison: Comparison) -> Iterator[tuple[dict[str, Any], Run]]:
    """The place of each run in a comparison: its system, seed, rank and p-value.

    The p-value is that of the difference of its system from the best.
    """
    name, systems, p_values = comparison.name, comparison.systems, comparison.p_values
    for (label, runs), rank, p in zip(systems.items(), comparison.ranks, p_values, strict=True):
        of_system = {"rank": rank, "p_vs_best": "" if np.isnan(p) else p}
        for run in runs:
            yield {"comparison": name, "system": label, "seed": run.seed} | of_system, run


def cost_of(run: Run) -> dict[str, Any]:
    """The size of a run and the cost of its training; `best_step` is that of its evaluation."""
    last = run.journal[-1]
    return {
        "parameters": run.evaluation["parameters"],
        "best_step": run.evaluation["step"],
        "steps": last["step"],
        "steps_per_second": last["steps_per_second"],
        "seconds": run.seconds,
    }
