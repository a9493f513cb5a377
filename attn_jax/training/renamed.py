"""The names that arrays of checkpoints had in earlier versions, and what they are called now.

Until November 2026, each parameter of a mechanism was an `nnx.Param` of its own; of two scores, the
second was numbered 1. Of one score, and of two:

    decoder.attention.scores.0.W.value    decoder.attention.parameters.value.score.W
    decoder.attention.window.v.value      decoder.attention.parameters.value.window.v

    decoder.attention.scores.0.W.value    decoder.attention.parameters.value.score.first.W
    decoder.attention.scores.1.W.value    decoder.attention.parameters.value.score.second.W

So were the moments that optimizers keep of them.
"""

import re
from collections.abc import Iterable

OF_MECHANISM = re.compile(r"\battention\.(?:scores\.([01])|(window|normalizer))\.(\w+)\.value\b")


def renamed(stored: Iterable[str]) -> dict[str, str]:
    """The present names of the arrays of a checkpoint, by the names under which they are stored."""
    names = list(stored)
    pairs = any(".attention.scores.1." in f".{name}" for name in names)

    def present(found: re.Match) -> str:
        nth, part, name = found.groups()
        if nth is not None:
            part = ("score.first", "score.second")[int(nth)] if pairs else "score"
        return f"attention.parameters.value.{part}.{name}"

    return {name: OF_MECHANISM.sub(present, name) for name in names}
