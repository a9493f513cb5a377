"""How far a run has come, and when its training ends."""

import math
from typing import NamedTuple

from attn_jax.config import Train


def goodness(record: dict[str, float], metric: str, larger_is_better: bool) -> float:
    """The metric of a validation in its record, negated if smaller is better."""
    return record[f"valid_{metric}"] * (1 if larger_is_better else -1)


class Progress(NamedTuple):
    """The progress of a run, stored in each checkpoint beside its state."""

    best: float = -math.inf  # goodness of the best validation
    best_step: int = 0
    seconds: float = 0.0  # spent on training steps

    def after(self, step: int, value: float) -> "Progress":
        """The progress after a validation with this `goodness`."""
        return self._replace(best=value, best_step=step) if value > self.best else self

    def finished(self, step: int, config: Train) -> bool:
        """Whether all steps are done, or `patience` validations brought no better metric."""
        # Counts scheduled validations: the best may be an extra one at the end of a shorter run.
        since = step // config.valid_every - self.best_step // config.valid_every
        return step >= config.steps or 0 < config.patience <= since
