"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

from attn_jax.errors import InputError
from attn_jax.reporting import tables
from attn_jax.reporting.printing import print_table
from attn_jax.reporting.report import Report, about_quality, report

from . import flags
from .flags import FLAGS
from .program import run


def main() -> None:
    """Prints the tables; writes `report.md` with its figures, and `runs.csv`, into the folder."""
    show(report(FLAGS.workdir))


def show(made: Report) -> None:
    """Prints a report.

    Raises:
      InputError: it could not be written.
    """
    for comparison in made.comparisons:
        name, profile = comparison.name, comparison.profile
        print_table(f"{name}: quality", comparison.quality)
        print("\n".join(about_quality(comparison)))
        print_table(f"{name}: cost", comparison.cost)
        print(tables.about_cost(comparison.cost))
        if profile.tells_more:
            print_table(f"{name}: length", tables.by_length(profile))
    for folder, why in made.left_out.items():
        print(f"left out, {why}: {folder}")
    if made.page is None:
        raise InputError(f"cannot write into {made.root}: this is all of the report")
    print(f"each run: {made.data}")
    print(f"report: {made.page}")


if __name__ == "__main__":
    flags.define_workdir("folder with runs beneath it")
    run(main)
