"""Compares attention with no attention on two tasks: 3 to 12 minutes on two cores.

`./launch.sh`, or `attn_jax main --workdir=runs/main`.
"""

from pathlib import Path

from absl import flags as absl_flags

from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.cli.program import OF_TRAINING
from attn_jax.reporting.report import print_report, report
from attn_jax.runs.sweeping import sweep

ADDITIVE = "additive(units=64)"
GRIDS = {
    "reverse": {"model.score": [ADDITIVE, "general", "scaled_dot", "last"], "seed": [0, 1]},
    "dates": {"model.score": [ADDITIVE, "last"]},
}

ADVICE = OF_TRAINING


def define() -> None:
    """Defines the flags."""
    absl_flags.DEFINE_string("workdir", "runs/main", "folder for the runs and the report")


def main() -> None:
    """Trains the systems of each task, and reports on all of them."""
    root = Path(FLAGS.workdir)
    for task, grid in GRIDS.items():
        options = flags.options_of([f"--flagfile={task}.flags"])
        sweep(options, root / task, grid=grid)
    print_report(report(root))
