"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

import os
from pathlib import Path

from attn_jax.errors import InputError
from attn_jax.reporting import tables
from attn_jax.reporting.about import searches, unfinished
from attn_jax.reporting.pages import Comparison, compare, write_report
from attn_jax.reporting.ranking import about_ranks
from attn_jax.reporting.runs import find_runs
from attn_jax.reporting.runs_csv import write_runs
from experiments import flags
from experiments.flags import FLAGS
from experiments.printing import print_table
from experiments.program import run


def print_comparison(comparison: Comparison) -> None:
    """Prints the tables of a comparison with explanations of their figures."""
    name, apart, systems, *_, quality, cost, profile = comparison
    print_table(f"{name}: quality", quality)
    notes = apart, *tables.about_quality(quality), searches(systems), *unfinished(systems)
    print("\n".join(filter(None, [*notes, *about_ranks(systems)])))
    print_table(f"{name}: cost", cost)
    print(tables.about_cost(cost))
    if profile.tells_more:
        print_table(f"{name}: length", tables.by_length(profile))


def main() -> None:
    """Prints the tables; writes `report.md` with its figures, and `runs.csv`, into the folder."""
    root = Path(FLAGS.workdir)
    if not root.is_dir():
        raise InputError(f"there is no folder {root}")
    runs, left_out = find_runs(root)
    if not runs:
        reasons = "".join(f"; {folder}: {why}" for folder, why in left_out.items())
        raise InputError(
            f"{root} holds no run that was evaluated on a test split: training does that at its "
            f"end if the data have one, `./launch.sh evaluate` at any time{reasons}"
        )
    comparisons = list(compare(runs))
    writable = os.access(root, os.W_OK)
    if writable:
        # Written before printing, since the reader of the output may close the pipe.
        page, data = write_report(comparisons, root), write_runs(comparisons, root)
    for comparison in comparisons:
        print_comparison(comparison)
    for folder, why in left_out.items():
        print(f"left out, {why}: {folder}")
    if not writable:
        raise InputError(f"cannot write into {root}: this is all of the report")
    print(f"each run: {data}")
    print(f"report: {page}")


if __name__ == "__main__":
    flags.define_workdir("folder with runs beneath it")
    run(main)
