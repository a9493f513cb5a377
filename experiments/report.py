"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

from absl import flags as absl_flags

from attn_jax.reporting.paper import FORMATS
from attn_jax.reporting.printing import print_report
from attn_jax.reporting.report import report

from . import flags
from .flags import FLAGS
from .program import run


def main() -> None:
    """Prints the tables; writes `report.md` with its figures, and `runs.csv`, into the folder."""
    print_report(report(FLAGS.workdir, FLAGS.baseline, formats=FLAGS.format))


if __name__ == "__main__":
    flags.define_workdir("folder with runs beneath it")
    absl_flags.DEFINE_string(
        "baseline",
        "",
        "system from which tables for a paper mark others to differ; empty: the best",
    )
    absl_flags.DEFINE_list(
        "format",
        [],
        f"what to write for a paper, into the folder paper beneath: {', '.join(FORMATS)} (tables "
        "with pairs.csv, and figures), several with commas",
    )
    run(main)
