"""`python -m experiments.train`: see `attn_jax.cli.train`."""

from attn_jax.cli import train
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(train)
