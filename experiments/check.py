"""`python -m experiments.check`: see `attn_jax.cli.check`."""

from attn_jax.cli import check
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(check)
