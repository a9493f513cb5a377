"""The options of decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from attn_jax.config.reading import read
from attn_jax.decoding.search import StepFunction
from attn_jax.errors import InputError, choose
from attn_jax.settings.fields import checked, fields, option
from attn_jax.settings.value import Value, setting
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
        words[int(weights.argmax())] if token == SPECIALS[UNK] and weights.any() else token
        for token, weights in zip(tokens, alignment, strict=True)
    ]


class LengthPenalty(Value):
    """What log-probabilities of hypotheses are divided by."""

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """The divisor of a hypothesis with so many words, `EOS` included."""
        raise NotImplementedError


class NoPenalty(LengthPenalty):
    """1: log-probabilities are compared as they are."""

    name = "none"

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """1."""
        return jnp.ones(length.shape)


class Average(LengthPenalty):
    """The number of words: mean log-probabilities per word are compared.

    Cho et al. 2014, "On the properties of neural machine translation", section 4.3.
    """

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """|Y|."""
        return length.astype(float)


class GNMT(LengthPenalty):
    """((5 + |Y|) / 6)^α. Wu et al. 2016, equation 14.

    α is not negative, which would make the divisor decrease with the length.
    """

    alpha: float = setting(0.6, low=0)

    def __call__(self, length: Int[Array, "..."]) -> Float[Array, "..."]:
        """((5 + |Y|) / 6)^α."""
        return ((5 + length) / 6) ** self.alpha


NONE = NoPenalty()
LENGTH_PENALTIES: dict[str, type[LengthPenalty]] = {
    one.name: one for one in (NoPenalty, Average, GNMT)
}


def uncovered(total: Float[Array, "... S"], mask: Bool[Array, "... S"]) -> Float[Array, "..."]:
    """Σ_s log min(Σ_t α_ts, 1): at most 0, and lower if less of the source was attended to.

    The sum over t is at least 1e-6, since sparse attention may give a word no weight at all. Wu et
    al. 2016, equation 14.

    Args:
      total: Σ_t α_ts, the weight of each source word, summed over the steps.
      mask: True at real source positions.
    """
    return jnp.where(mask, jnp.log(jnp.clip(total, 1e-6, 1.0)), 0).sum(axis=-1)


@dataclass(frozen=True)
class Search:
    """How to decode. Lengths are in target tokens, without the end of the sentence."""

    beam_size: int = option(
        1, "W, hypotheses kept at each step; 1: greedy search", low=1, high=1000
    )
    n_best: int = option(
        1, "hypotheses for each sentence: the best of a beam, or so many samples", low=1, high=1000
    )
    length_penalty: str = option(
        "gnmt",
        "beam: what log-probabilities of hypotheses are divided by: none, average (the length) or "
        "gnmt(alpha=0.6)",
    )
    coverage_penalty: float = option(
        0.0, "beam: weight of GNMT's penalty for source tokens without attention", low=0, high=1000
    )
    min_length: int = option(0, "fewest tokens of a translation", low=0)
    max_length: int = option(
        0,
        "most tokens of a translation; 0: twice the source (12 times from words or subwords to "
        "characters or symbols) and 20 more",
        low=0,
    )
    unknown: str = option(
        "keep",
        "words that the vocabulary lacks: keep <unk>, forbid it, or copy the source word with the "
        "largest weight into the text",
    )
    temperature: float = option(0.0, "sample at this temperature; 0: search", low=0, high=1000)
    top_k: int = option(0, "sample from the k most probable tokens; 0: from all", low=0)
    top_p: float = option(
        1.0, "sample from the fewest tokens with this probability in all", low=1e-6, high=1
    )
    seed: int = option(0, "seed of samples", low=0)

    @property
    def length_divisor(self) -> LengthPenalty:
        """What `length_penalty` names.

        Raises:
          InputError: there is no such penalty, or it has no such setting.
        """
        return read(LengthPenalty, self.length_penalty, {LengthPenalty: LENGTH_PENALTIES})

    def __post_init__(self) -> None:
        if self.beam_size > 1:
            _ = self.length_divisor  # reports a wrong name or setting
        choose(dict.fromkeys(TREATMENTS), self.unknown, "treatment of <unk>")
        if self.beam_size > 1 and self.temperature:
            raise InputError(
                "sampling does not use a beam: give beam_size or temperature, not both"
            )
        if (self.top_k or self.top_p < 1) and not self.temperature:
            raise InputError("top_k and top_p are for sampling: give a temperature, such as 1")
        if self.n_best > self.beam_size and not self.temperature:
            raise InputError(f"n_best={self.n_best} is more than beam_size={self.beam_size}")
        if 0 < self.temperature < 0.01:
            raise InputError(f"temperature must be 0, or at least 0.01, got {self.temperature}")
        if self.max_length and self.min_length > self.max_length:
            raise InputError(
                f"min_length={self.min_length} is more than max_length={self.max_length}"
            )

    def check_lengths(self, longest: int) -> None:
        """Raises InputError if a length option exceeds `longest`, the most tokens allowed."""
        for name in ("min_length", "max_length"):
            if getattr(self, name) > longest:
                raise InputError(
                    f"{name}={getattr(self, name)} is more than the {longest} of data.max_length"
                )


def search_of(options: dict[str, Any]) -> Search:
    """The search with these options; all others have their defaults.

    Raises:
      InputError: an option is unknown, has the wrong type, is out of bounds, or has no effect or
        makes no sense together with the others.
    """
    known = dict(fields(Search))
    made = Search(
        **{name: checked(name, choose(known, name, "option"), v) for name, v in options.items()}
    )
    for name in ("length_penalty", "coverage_penalty"):
        if name in options and made.beam_size == 1:
            raise InputError(f"{name} is for beam search: give a beam_size of 2 or more")
    if "seed" in options and not made.temperature:
        raise InputError("seed is for sampling: give a temperature, such as 1")
    return made
