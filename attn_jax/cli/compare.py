"""Which attention mechanism is best for my data? `./launch.sh compare --data.train=… --hours=2`.

Trains a short list of systems, each with the same few settings, for as long as it may; chooses
settings on validation, compares them on the test with several seeds, and answers in words. Any
option of a run may be given, which is then the same for all. The same command again goes on.
"""

from pathlib import Path

import jax
from absl import flags as absl_flags

from attn_jax.cli import flags, sweep_flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import OF_TRAINING
from attn_jax.reporting.printing import print_table
from attn_jax.reporting.tables import quality
from attn_jax.runs.comparing import agenda_of, compare
from attn_jax.runs.defaults import TABLE, systems_for

ADVICE = OF_TRAINING


def define() -> None:
    """Defines the flags."""
    flags.define_workdir("folder for the runs, the report and the answer")
    flags.define_experiment()
    absl_flags.DEFINE_float("hours", 2.0, "time that it may take, from the start on")
    absl_flags.DEFINE_string(
        "systems",
        "",
        "file with the flags of one system on each line, the most important first; by default "
        + ", ".join(system["label"] for system in systems_for(TABLE[0])),
    )
    absl_flags.DEFINE_integer(
        "seeds",
        3,
        "runs of the best setting of each system, each with another random seed",
        lower_bound=1,
    )
    sweep_flags.define_jobs()
    absl_flags.DEFINE_bool(
        "dry_run", False, "tell what would be compared, and only keep what it measured"
    )


def main() -> None:
    """Compares, or tells what would be compared."""
    jax.config.update("jax_platforms", "cpu")  # accelerators are left to the runs
    systems = sweep_flags.systems()
    asked = flags.given(), Path(FLAGS.workdir)
    how = {"hours": FLAGS.hours, "systems": systems, "seeds": FLAGS.seeds, "jobs": FLAGS.jobs}
    if FLAGS.dry_run:
        agenda_of(*asked, **how)
        return
    answer = compare(*asked, **how)
    for comparison in answer.report.comparisons:
        print_table(f"{comparison.name}: quality", quality(comparison))
    print()
    print(answer)
    print()
    for doubt in answer.doubts:
        print(f"- {doubt}")
    print(f"answer: {answer.page}")
    print(f"page, for a browser: {answer.report.html}")
