"""`python -m experiments.page`: see `attn_jax.cli.page`."""

from attn_jax.cli import page
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(page)
