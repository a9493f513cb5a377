"""`python -m experiments.align`: see `attn_jax.cli.align`."""

from attn_jax.cli import align
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(align)
