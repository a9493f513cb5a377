"""`python -m experiments.evaluate`: see `attn_jax.cli.evaluate`."""

from attn_jax.cli import evaluate
from attn_jax.cli.program import run

if __name__ == "__main__":
    run(evaluate)
