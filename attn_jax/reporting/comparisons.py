"""What is compared, and what is computed of it, as frames."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attn_jax import config
from attn_jax.files import writing
from attn_jax.reporting import differences
from attn_jax.reporting.about import separated
from attn_jax.reporting.profiles import Profile, by_length
from attn_jax.reporting.runs import Run
from attn_jax.reporting.systems import (
    Systems,
    by_data,
    by_system,
    first_run,
    runs_of,
    varying_facts,
)
from attn_jax.reporting.toolkits import Toolkits, beside

# Whole numbers that some runs may lack.
WHOLE = ["seed", "parameters", "best_step", "steps", "steps_to_learn", "alignment_shift"]
WHOLE += ["weights_sentences", "weights_tokens"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The systems of one data set; what is computed of them is computed once, when needed."""

    name: str
    apart: str  # why its runs are apart from others of the same name, or nothing
    systems: Systems

    @property
    def measure(self) -> str:
        """The metric by which systems are ranked."""
        return first_run(self.systems).measure

    @functools.cached_property
    def differences(self) -> pd.DataFrame:
        """A row for each metric and pair of systems."""
        return differences.differences(self.systems)

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """A row for each run, by its folder: its system, seed, rank, metrics and cost.

        `p_vs_best` is the p-value of the difference of its system from the best.
        """
        ranked = differences.of_ranks(self.differences, self.systems)
        of_best = ranked[ranked["first"] == next(iter(self.systems))]
        p_values = dict(zip(of_best["second"], of_best["p"], strict=True))
        ranks = differences.ranks(self.differences, self.systems)
        rows = [
            {"comparison": self.name, "system": label, "seed": run.seed, "rank": ranks[label]}
            | {"p_vs_best": p_values.get(label, np.nan)}
            | run.metrics
            | cost_of(run)
            | {f"weights_{name}": value for name, value in run.explanations.items()}
            for label, runs in self.systems.items()
            for run in runs
        ]
        folders = pd.Index([run.folder for run in runs_of(self.systems)], name="folder")
        return pd.DataFrame(rows, folders)

    @functools.cached_property
    def profile(self) -> Profile:
        """Quality by source length."""
        return by_length(self.systems)


def compare(runs: list[Run], toolkits: Toolkits | None = None) -> Iterator[Comparison]:
    """Compares the runs of each data set, and what toolkits wrote for it.

    Raises:
      InputError: what a toolkit wrote is of no data set.
    """
    firsts: dict[str, Run] = {}
    groups = by_data(runs)
    others = beside([group[0] for group in groups.values()], toolkits or {})
    for (name, group), written in zip(groups.items(), others, strict=True):
        first = firsts.setdefault(group[0].data, group[0])
        apart = "" if first is group[0] else separated(first, group[0])
        yield Comparison(name, apart, by_system(group + written))


def cost_of(run: Run) -> dict[str, Any]:
    """The size of a run and the cost of its training; nothing of another toolkit.

    `best_step` is that of its evaluation. `steps_to_learn` are those until the first validation
    with at least 99 % exact match, which only symbols and single words reach.
    """
    if not run.trained:
        return {}
    last, learned = run.journal[-1], {}
    if not run.in_words:
        good = [line["step"] for line in run.journal if line["valid_exact_match"] >= 99]
        learned["steps_to_learn"] = good[0] if good else np.nan
    return {
        "parameters": run.evaluation["parameters"],
        "best_step": run.evaluation["step"],
        "steps": last["step"],
        **learned,
        "steps_per_second": last["steps_per_second"],
        "target_tokens_per_second": last["target_tokens_per_second"],
        "seconds": run.seconds,
    }


def all_runs(comparisons: Sequence[Comparison], root: Path) -> pd.DataFrame:
    """A row for each run of some comparisons, with the facts that vary.

    Args:
      comparisons: comparisons of runs under `root`.
      root: the folders of runs are given relative to it.
    """
    runs = [run for comparison in comparisons for run in runs_of(comparison.systems)]
    varying = varying_facts([run for run in runs if run.trained])
    facts = [
        {name: config.brief(run.facts[name]) for name in varying if run.trained} for run in runs
    ]
    frame = pd.concat([comparison.runs for comparison in comparisons])
    frame = frame.join(pd.DataFrame(facts, frame.index))
    frame.index = [
        (run.folder.relative_to(root) if run.trained else run.folder).as_posix() for run in runs
    ]
    frame.index.name = "folder"
    whole = frame.columns.intersection(WHOLE)
    return frame.astype(dict.fromkeys(whole, "Int64"))


def all_pairs(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """A row for each metric and pair of systems of some comparisons."""
    names = [comparison.name for comparison in comparisons]
    frames = [comparison.differences for comparison in comparisons]
    return pd.concat(frames, keys=names, names=["comparison"]).reset_index("comparison")


def write_csv(frame: pd.DataFrame, path: Path, index: bool = True) -> None:
    """Writes a frame for other programs."""
    with writing(path) as (beside,):
        frame.to_csv(beside, index=index)
