"""`python -m experiments.sweep`: see `attn_jax.cli.sweep`."""

from attn_jax.cli import sweep
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(sweep)
