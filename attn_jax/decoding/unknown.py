"""Words that the target vocabulary lacks: the search without `<unk>`, and what replaces it."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from attn_jax.decoding.search import Step
from attn_jax.tokens import SPECIALS, UNK

TREATMENTS = ("keep", "forbid", "copy")


def forbidding(step: Step) -> Step:
    """A step after which `<unk>` never comes; all other words have the probability they had."""

    def known(sources: Any, states: Any, words: Int[Array, " R"]) -> tuple:
        states, log_probabilities, weights = step(sources, states, words)
        return states, log_probabilities.at[:, UNK].set(-jnp.inf), weights

    return known


def replaced(tokens: Sequence[str], alignment: np.ndarray, words: Sequence[str]) -> list[str]:
    """The tokens, with the source word of the largest weight in the place of each `<unk>`.

    Jean et al. 2015, section 3.3; Luong, Pham and Manning 2015, section 4.2.

    Args:
      tokens: of a hypothesis, without the end of the sentence.
      alignment: the weights [T, S] behind each token; where all are 0, `<unk>` stays.
      words: what to write for each of the S source tokens.
    """
    return [
        words[weights.argmax()] if token == SPECIALS[UNK] and weights.any() else token
        for token, weights in zip(tokens, alignment, strict=True)
    ]
