"""Trials of settings that are drawn at random: the same number, and the same ones, for each system.

All are drawn beforehand, so that they may be made in any order.
"""

import dataclasses
import re
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from attn_jax import config
from attn_jax.errors import InputError, choose
from attn_jax.settings.grammar import Number, parse, split

RANGES = {
    "uniform": "uniform(LOW,HIGH)",
    "log": "log(LOW,HIGH), uniform in the logarithm",
    "choice": "choice(A,B,...)",
}
# Options of data that leave the sentence pairs as they are.
OF_TOKENS = (
    "data.words",
    "data.min_count",
    "data.subwords",
    "data.character_coverage",
    "data.vocabulary",
)
FRESH = 1000  # trials have seeds from this one on, added to that of the experiment; others before


@dataclasses.dataclass(frozen=True)
class Trials:
    """How each system is tuned before it is compared.

    Attributes:
      number: of trials of each system.
      space: what is drawn for each option, as text: `{"train.learning_rate": "log(1e-4,1e-2)"}`.
      seeds: runs of each system with the setting that was best on validation.

    Raises:
      InputError: a number is too low, a text is none of `RANGES`, or trials with other values of an
        option could not be compared.
    """

    number: int
    space: Mapping[str, str]
    seeds: int = 3

    def __post_init__(self) -> None:
        whole = all(isinstance(number, Integral) for number in (self.number, self.seeds))
        if not whole or self.number < 1 or not 0 < self.seeds <= FRESH:
            raise InputError(f"search.trials must be 1 or more, search.seeds from 1 to {FRESH}")
        if not self.space:
            raise InputError(
                "nothing is searched: give search.train.learning_rate='log(1e-4,1e-2)'"
            )
        for name in self.space:
            if why := _unsearchable(name):
                raise InputError(f"search.{name}: {why}")
            for u in np.linspace(0, 1, 50, endpoint=False):
                config.given({name: self._at(name, float(u))})

    def drawn(self, seed: int) -> list[dict[str, Any]]:
        """The options of each trial; with more of them, the first ones stay the same.

        Args:
          seed: of the experiment.
        """
        draws = np.random.default_rng(seed).random((self.number, len(self.space)))
        return [
            {name: self._at(name, float(u)) for name, u in zip(self.space, row, strict=True)}
            | {"seed": seed + FRESH + nth}
            for nth, row in enumerate(draws)
        ]

    def _at(self, name: str, u: float) -> Any:
        """The value of an option at a place in [0, 1) of its range."""
        entry = choose(config.known(), name, "option")
        text = self.space[name]
        try:
            value = _value(text, u)
        except ValueError as error:
            told = "; ".join(RANGES.values())
            raise InputError(f"search.{name}={text} is no range: {told} ({error})") from error
        return round(value) if entry.type is int and isinstance(value, float) else value


def _unsearchable(name: str) -> str:
    """Why an option cannot be searched; empty if it can."""
    if name == "seed":
        return "each trial has its own seed in any case"
    if name in ("label", "train.steps", "train.metric"):
        return "it is the same for all trials, which are compared"
    if name.startswith("data.") and name not in OF_TOKENS:
        return "all trials have the same sentence pairs, on which they are compared"
    return ""


def _value(text: str, u: float) -> float | str:
    """The value at a place in [0, 1) of a range; numbers have four digits."""
    if not isinstance(text, str):
        raise InputError("it is no text")
    if choices := re.fullmatch(r"\s*choice\s*\((.+)\)\s*", text):
        values = split(choices[1])  # each as an option takes it, such as guided+coverage
        return values[int(u * len(values))].strip()
    of = parse(text, "range")
    choose(RANGES, of.name, "range")
    numbers = [value.value for name, value in of.settings if isinstance(value, Number) and not name]
    if len(numbers) != 2 or len(of.settings) != 2:
        raise ValueError("it takes two numbers")
    low, high = numbers
    if not low < high:
        raise ValueError("its first number must be below its second")
    if of.name == "log" and low <= 0:
        raise ValueError("its numbers must be above 0")
    value = low * (high / low) ** u if of.name == "log" else low + (high - low) * u
    return min(max(float(f"{value:.4g}"), low), high)
