"""`python -m experiments.translate`: see `attn_jax.cli.translate`."""

from attn_jax.cli import translate
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(translate)
