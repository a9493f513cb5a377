"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from attn_jax.errors import InputError
from attn_jax.report import tables
from attn_jax.report.cells import by_data, by_system, find_cells
from attn_jax.report.pages import searches, write_report
from attn_jax.report.ranking import EXPLANATION
from experiments import flags
from experiments.flags import FLAGS
from experiments.program import run


def print_table(title: str, table: tables.Table) -> None:
    """Prints a table to the terminal."""
    printed = Table(title=title)
    for nth, name in enumerate(table.heading):
        printed.add_column(name, justify="right" if nth else "left", no_wrap=nth == 0)
    for row in table.rows:
        printed.add_row(*row)
    # A pipe has no width, and a table cut to one would say nothing.
    Console(width=None if sys.stdout.isatty() else 200).print(printed)


def main() -> None:
    """Prints the tables and writes `report.md` with its figures into the folder."""
    root = Path(FLAGS.workdir)
    cells, unfinished = find_cells(root)
    if not cells:
        raise InputError(f"{root} holds no run that was evaluated on a test split")
    for name, group in by_data(cells).items():
        systems = by_system(group)
        print_table(f"{name}: quality", tables.quality(systems))
        first = next(iter(systems.values()))[0]
        print(searches(systems))
        if len(systems) > 1:
            print(EXPLANATION[first.measure])
        print_table(f"{name}: cost", tables.cost(systems))
        print(tables.ABOUT_COST)
        print_table(f"{name}: length", tables.by_length(systems))
    for folder in unfinished:
        print(f"left out, not finished: {folder}")
    print(f"report: {write_report(cells, root)}")


if __name__ == "__main__":
    flags.define_workdir("folder with runs beneath it")
    run(main)
