"""`python -m experiments.main`: see `attn_jax.cli.main`."""

from attn_jax.cli import main
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(main)
