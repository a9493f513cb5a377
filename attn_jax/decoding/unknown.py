"""Words that the target vocabulary lacks: search without `<unk>`, and replacements for it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from attn_jax.decoding.search import StepFunction
from attn_jax.tokens import SPECIALS, UNK

TREATMENTS = ("keep", "forbid", "copy")


def forbidding(step: StepFunction) -> StepFunction:
    """Wraps a step so that `<unk>` has probability 0; those of other words are unchanged."""

    def known(sources: Any, states: Any, words: Int[Array, " R"]) -> tuple:
        states, log_probabilities, weights = step(sources, states, words)
        return states, log_probabilities.at[:, UNK].set(-jnp.inf), weights

    return known


def replaced(tokens: Sequence[str], alignment: np.ndarray, words: Sequence[str]) -> list[str]:
    """The tokens, with each `<unk>` replaced by the source word with the largest weight.

    Jean et al. 2015, section 3.3; Luong, Pham and Manning 2015, section 4.2.

    Args:
      tokens: tokens of a hypothesis, without the end of the sentence.
      alignment: attention weights [T, S]; where those of a token are all 0, `<unk>` is kept.
      words: the replacement for each of the S source tokens.
    """
    return [
        words[weights.argmax()] if token == SPECIALS[UNK] and weights.any() else token
        for token, weights in zip(tokens, alignment, strict=True)
    ]
