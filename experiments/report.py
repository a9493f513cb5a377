"""`python -m experiments.report`: see `attn_jax.cli.report`."""

from attn_jax.cli import report
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(report)
