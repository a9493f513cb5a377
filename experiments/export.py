"""`python -m experiments.export`: see `attn_jax.cli.export`."""

from attn_jax.cli import export
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(export)
