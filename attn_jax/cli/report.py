"""Tables and figures of the runs under a folder: `./launch.sh report --workdir=runs/main`."""

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.drawing.document import Limits
from attn_jax.reporting.paper import FORMATS
from attn_jax.reporting.report import print_report, report
from attn_jax.reporting.watching import watch


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder with runs beneath it")
    absl_flags.DEFINE_string(
        "baseline",
        "",
        "system that report.html and the tables for a paper compare the others with; by default "
        "the best",
    )
    absl_flags.DEFINE_list(
        "weights",
        [],
        "files .npz or .json of what other toolkits wrote for the test sentences, in their order, "
        "with its weights; each is a system beside those of the runs",
    )
    absl_flags.DEFINE_bool(
        "watch",
        False,
        "keep the report up to date until all runs are evaluated, or Ctrl-C; report.html, open in "
        "a browser, loads itself anew",
    )
    absl_flags.DEFINE_list(
        "format",
        [],
        f"what to write for a paper, into the folder paper beneath: {', '.join(FORMATS)} (tables "
        "with pairs.csv, and figures), several with commas",
    )
    absl_flags.DEFINE_string(
        "sentence",
        "",
        "test sentence in figures, among those whose weights all systems have stored (the first "
        "32, and those that all wrote wrong, up to 64 of each): its number, or a text that occurs "
        "in its source; by default the one on which systems differ most",
    )
    absl_flags.DEFINE_integer(
        "page_sentences", Limits.sentences, "most sentences of each split in report.html"
    )
    absl_flags.DEFINE_integer(
        "page_systems",
        Limits.systems,
        "how many of the best systems report.html shows with every layer and head, besides the "
        "baseline; the others have the mean over heads",
    )
    absl_flags.DEFINE_float(
        "page_megabytes", Limits.megabytes, "most megabytes of weights in report.html"
    )


def main() -> None:
    """Prints the tables; writes `report.html`, `report.md` with its figures, and `runs.csv`."""
    make = watch if FLAGS.watch else report
    made = make(
        FLAGS.workdir,
        FLAGS.baseline,
        formats=FLAGS.format,
        sentence=FLAGS.sentence,
        page_sentences=FLAGS.page_sentences,
        page_systems=FLAGS.page_systems,
        page_megabytes=FLAGS.page_megabytes,
        weights=flags.weights(),
    )
    print_report(made)
