"""The speed of training."""

import statistics
import time
from collections.abc import Sequence

import numpy as np

from attn_jax.tokens import PAD
from attn_jax.training import processes


class Throughput:
    """Measures the speed of training over intervals of steps.

    Rates are medians, which ignore outliers, over the intervals in which no batch had a new shape,
    since a step is compiled for each shape. If there are none, they are over all intervals.

    Args:
      before: the rates of earlier intervals, which count if there are no others.
    """

    def __init__(self, before: Sequence[float] = ()) -> None:
        self._known: set[tuple] = set()
        self.forget()
        self._before = before
        self.reset()

    def forget(self) -> None:
        """Starts anew, but for the shapes that are known."""
        self._before: Sequence[float] = ()
        self._rates: dict[bool, list[tuple[float, float]]] = {False: [], True: []}

    def reset(self) -> None:
        """Starts a new interval."""
        self._begin, self._tokens, self._steps = time.perf_counter(), 0, 0
        self._compiled = False

    def count(self, source: np.ndarray, target: np.ndarray) -> None:
        """Counts a step with this batch, or with the share of it that this process has."""
        shapes = source.shape, target.shape
        self._compiled |= shapes not in self._known
        self._known.add(shapes)
        self._tokens += int((target != PAD).sum())
        self._steps += 1

    def close(self) -> float:
        """Ends the interval for all processes, and starts the next; the seconds that it took."""
        seconds = time.perf_counter() - self._begin
        if self._steps:
            rates = self._steps / seconds, processes.total(self._tokens) / seconds
            self._rates[self._compiled].append(rates)
        self.reset()
        return seconds

    def rates(self) -> Sequence[float]:
        """Median steps and target tokens (without padding) per second; nothing if not measured."""
        rates = self._rates[False] or self._rates[True]
        return [statistics.median(each) for each in zip(*rates, strict=True)] or self._before
