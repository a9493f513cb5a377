"""`python -m experiments.compare`: see `attn_jax.cli.compare`."""

from attn_jax.cli import compare
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(compare)
