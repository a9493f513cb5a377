"""Checks a part of your own: `./launch.sh check my_score:MyScore`.

Prints a line for each check, and ends with status 1 if one fails.
"""

import sys
from typing import Any

from absl import flags as absl_flags

from attn_jax.attention.mechanism import KINDS, Mechanism
from attn_jax.attention.protocol import Mixing, Part, Score
from attn_jax.checks.mechanisms import begun
from attn_jax.cli import flags
from attn_jax.cli.flags import FLAGS
from attn_jax.config import TABLES
from attn_jax.config.reading import PARTS, kind_of, read
from attn_jax.errors import InputError
from attn_jax.recipe.loss import Loss
from attn_jax.recipe.losses import LOSSES


def part() -> Part | Mechanism | Loss:
    """What is to be checked: one part, a mechanism if others are given, or a loss.

    Raises:
      InputError: there is no such part, or others are given that it cannot be checked with.
    """
    kind = kind_of(FLAGS.part, {**PARTS, Loss: LOSSES})
    texts = {option: flags.value_of(option) for option in KINDS}
    one = read(kind, FLAGS.part, tables=TABLES)
    parts: dict[str, Any] = {o: read(KINDS[o], text) for o, text in texts.items() if text}
    if kind is Mixing and parts:
        raise InputError(f"{FLAGS.part} mixes heads, and is checked alone")
    if not parts:
        return one
    if kind is Loss:
        raise InputError(f"{FLAGS.part} is a loss: leave out --{next(iter(parts))}")
    option = kind.__name__.lower()
    if option in parts:
        raise InputError(f"{FLAGS.part} is a {option} already: leave out --{option}")
    if kind is not Score and "score" not in parts:
        raise InputError(f"--score is missing: the score for {FLAGS.part}")
    return Mechanism(**parts | {option: one})


def define() -> None:
    """Defines the flags."""
    flags.define_first(
        "part", "score, window, normalizer, values, gate, mixing or loss: my_score:MyScore"
    )
    for option in KINDS:
        absl_flags.DEFINE_string(
            option, "", f"{option} to check the part with, instead of a usual one"
        )
    absl_flags.DEFINE_integer("query_size", None, "Q, features of a query", lower_bound=1)
    absl_flags.DEFINE_integer(
        "annotation_size", None, "D, features of an annotation", lower_bound=1
    )


def main() -> None:
    """Prints the findings."""
    checked, findings = begun(part(), FLAGS.query_size, FLAGS.annotation_size)
    print(checked, flush=True)
    failed = False
    for finding in findings:
        print(finding, flush=True)
        failed |= finding.status == "FAILS"
    sys.exit(1 if failed else 0)
