"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

from attn_jax.reporting.printing import print_report
from attn_jax.reporting.report import report

from . import flags
from .flags import FLAGS
from .program import run


def main() -> None:
    """Prints the tables; writes `report.md` with its figures, and `runs.csv`, into the folder."""
    print_report(report(FLAGS.workdir))


if __name__ == "__main__":
    flags.define_workdir("folder with runs beneath it")
    run(main)
