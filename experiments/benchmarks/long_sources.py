"""How far mechanisms read beyond the lengths they were trained on, as docs/long-sources.png.

`python -m experiments.benchmarks.long_sources --workdir=runs/more` takes a sweep over the tasks
`copy` and `reverse`, as `experiments/presets/mechanisms.flags` describes it. Each run translates
new sources of one to ten times the longest of its training.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from absl import flags as absl_flags

from attn_jax import load
from attn_jax.attention import Additive, Full
from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import run
from attn_jax.data.synthetic import TASKS
from attn_jax.edits import edit_distance
from attn_jax.reporting.comparisons import compare
from attn_jax.reporting.runs import Run, find_runs

TIMES = (1, 2, 5, 10)  # the longest source of the training
SENTENCES = 16  # of each length: all are one batch, which is compiled once


def right(one: Run) -> list[float]:
    """The share of symbols that a run writes correctly, in percent, at each length.

    It is 100 less the symbol error rate, and at least 0.
    """
    translator = load(one.folder)
    longest, symbols = one.options["data.longest"], one.options["data.symbols"]
    translator.max_length = TIMES[-1] * longest + 1  # training left out what is longer
    rng, lengths = np.random.default_rng(0), np.repeat(TIMES, SENTENCES) * longest
    sources = [rng.integers(1, symbols + 1, length) for length in lengths]
    targets = [numbers[TASKS[one.options["data.name"]](numbers)] for numbers in sources]
    hypotheses = translator.translate([" ".join(map(str, numbers)) for numbers in sources])
    written = [hypothesis.text.split() for hypothesis in hypotheses]
    errors = [*map(edit_distance, written, ([*map(str, numbers)] for numbers in targets))]
    of_length = np.reshape(errors / lengths, (len(TIMES), SENTENCES)).mean(axis=1)
    return (100 * np.maximum(0, 1 - of_length)).tolist()


def mean(of_system: Sequence[Run]) -> np.ndarray:
    """The mean of `right` over the runs of a system."""
    return np.mean([*map(right, of_system)], axis=0)


def knows_places(one: Run) -> bool:
    """Whether its mechanism depends on positions or on earlier steps; or is the baseline."""
    chosen = (one.options[f"model.{name}"] for name in ("score", "window", "normalizer"))
    parts = [part for each in chosen if each is not None for part in each.parts()]
    baseline = all(type(part) in (Additive, Full) for part in parts)
    return baseline or any(part.positional or part.carried or part.is_stateful for part in parts)


def draw(tables: dict[str, pd.DataFrame], path: Path) -> None:
    """A panel for each task: systems, the best at ten times the length first, by lengths."""
    rows = max(map(len, tables.values()))
    figure, panels = plt.subplots(
        1, len(tables), figsize=(5.2 * len(tables), 0.24 * rows + 1), layout="constrained"
    )
    for panel, (name, table) in zip(np.atleast_1d(panels), tables.items(), strict=True):
        table = table.sort_values([*table.columns[::-1]], ascending=False)
        panel.imshow(table, aspect="auto", cmap="viridis", vmin=0, vmax=100)
        panel.set_xticks(range(len(TIMES)), [f"{times}\N{MULTIPLICATION SIGN}" for times in TIMES])
        panel.set_yticks(range(len(table)), table.index, fontsize=7)
        panel.set_title(f"{name}: % right", fontsize=9)
        centred = {"ha": "center", "va": "center", "fontsize": 6}
        for (row, column), value in np.ndenumerate(table.to_numpy()):
            color = "white" if value < 60 else "black"
            panel.text(column, row, f"{value:.0f}", color=color, **centred)
    figure.savefig(path, dpi=150)


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder of a sweep over mechanisms and tasks")
    absl_flags.DEFINE_string("figure", "docs/long-sources.png", "file of the figure")


def main() -> None:
    """Draws the figure, and prints the figures in it."""
    runs, _ = find_runs(Path(FLAGS.workdir))
    tables, cores = {}, len(os.sched_getaffinity(0))
    # Most of the time, programs are compiled, each by one core, for all runs of a system.
    pool = ProcessPoolExecutor(cores, mp_context=get_context("spawn"))
    for comparison in compare(runs):
        chosen = {
            label: of_system
            for label, of_system in comparison.systems.items()
            if knows_places(of_system[0])
        }
        means = dict(zip(chosen, pool.map(mean, chosen.values()), strict=True))
        tables[comparison.name] = pd.DataFrame.from_dict(means, orient="index", columns=[*TIMES])
        print(comparison.name, tables[comparison.name].round(0).to_string(), sep="\n", flush=True)
    draw(tables, Path(FLAGS.figure))


if __name__ == "__main__":
    run(sys.modules[__name__])
