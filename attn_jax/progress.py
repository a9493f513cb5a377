"""How far a run has come, which validation is its best, and when its training ends."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from attn_jax.config import Train

Goodness = tuple[float, float]  # larger is better; the second decides between equal first ones


class Criterion(NamedTuple):
    """What decides which validation is the best: a metric, and between equal values perplexity.

    Exact match and BLEU may stay 0 for several validations in which the model does get better.
    """

    metric: str
    larger_is_better: bool

    def value(self, record: Mapping[str, Any]) -> float:
        """The metric of a validation in its record."""
        return record[f"valid_{self.metric}"]

    def goodness(self, record: Mapping[str, Any]) -> Goodness:
        """How good a validation is: its metric and its perplexity, negated if smaller is better."""
        value = self.value(record)
        return value if self.larger_is_better else -value, -record["valid_perplexity"]


class Progress(NamedTuple):
    """The progress of a run, stored in each checkpoint beside its state."""

    best: Goodness = (-math.inf, -math.inf)  # of the best validation
    best_step: int = 0
    seconds: float = 0.0  # spent on training steps
    since: int = 0  # validations since the best
    skipped: int = 0  # steps skipped in a row, up to now

    @classmethod
    def of(cls, facts: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> "Progress":
        """The progress stored in the facts of a checkpoint.

        Args:
          facts: of the checkpoint.
          records: the journal up to the checkpoint.
        """
        best, best_step, seconds = (facts[name] for name in ("best", "best_step", "seconds"))
        if isinstance(best, list):
            return cls(tuple(best), best_step, seconds, facts["since"], facts["skipped"])
        # Of an earlier version, in which the first of equal values was the best.
        since = sum(record["step"] > best_step for record in records)
        return cls((best, 0.0), best_step, seconds, since)

    def after(self, step: int, goodness: Goodness) -> "Progress":
        """The progress after a validation."""
        if goodness > self.best:
            return self._replace(best=goodness, best_step=step, since=0)
        return self._replace(since=self.since + 1)

    def finished(self, step: int, config: Train) -> bool:
        """Whether all steps are done, or `patience` validations brought no better metric."""
        return step >= config.steps or 0 < config.patience <= self.since
