"""How far a run has come, which validation is its best, and when its training ends."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

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


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress of a run, recorded with each checkpoint.

    A checkpoint may lie between two validations, or before one that is still to be made.
    """

    best: Goodness | None = None  # of the best validation
    best_step: int = 0
    seconds: float = 0.0  # spent on training steps
    since: int = 0  # validations since the best
    skipped: int = 0  # steps skipped in a row, up to now
    validated: int = 0  # the step of the last validation
    left_out: int = 0  # steps skipped since that validation
    loss: float = 0.0  # the sum of the losses of the other steps since
    rates: tuple[float, ...] = ()  # steps and target tokens per second since, if measured

    def trained(self, losses: Iterable[float], seconds: float, skipped: int) -> "Progress":
        """The progress after more steps.

        Args:
          losses: of these steps; NaN of those that were skipped.
          seconds: that they took.
          skipped: how many have been skipped in a row up to the last of them.
        """
        loss, left_out = self.loss, self.left_out
        for each in losses:  # one by one: the sum does not depend on when losses are read
            if math.isfinite(each):
                loss += each
            else:
                left_out += 1
        taken = self.seconds + seconds
        return replace(self, loss=loss, left_out=left_out, seconds=taken, skipped=skipped)

    def train_loss(self, step: int) -> float:
        """The mean loss of the steps since the last validation; NaN if all were skipped."""
        done = step - self.validated - self.left_out
        return self.loss / done if done else math.nan

    def after(self, step: int, goodness: Goodness) -> "Progress":
        """The progress after a validation."""
        later = replace(self, validated=step, left_out=0, loss=0.0, rates=())
        if self.best is None or goodness > self.best:
            return replace(later, best=goodness, best_step=step, since=0)
        return replace(later, since=self.since + 1)

    def awaits_validation(self, step: int, config: Train) -> bool:
        """Whether a validation is to be made after a step, and has not been made."""
        return self.validated < step and (step % config.valid_every == 0 or step >= config.steps)

    def finished(self, step: int, config: Train) -> bool:
        """Whether all steps are done, or `patience` validations brought no better metric."""
        done = step >= config.steps and self.validated == step
        return done or 0 < config.patience <= self.since
