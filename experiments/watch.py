"""`python -m experiments.watch`: see `attn_jax.cli.watch`."""

from attn_jax.cli import watch
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(watch)
