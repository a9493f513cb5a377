"""The reported speed of training."""

import numpy as np

from attn_jax.training import running
from attn_jax.training.running import Throughput


def test_rates_leave_out_what_compiles(monkeypatch):
    now = iter([0, 10, 12, 16, 17])
    monkeypatch.setattr(running.time, "perf_counter", lambda: next(now))
    measured = Throughput()
    tokens, other = np.ones((2, 3), int), np.ones((2, 4), int)

    def stretch(source):
        measured.count(source, tokens)
        return measured.close()

    # Each close reads the clock twice: at the end of a stretch and at the start of the next.
    assert stretch(tokens) == 10
    assert stretch(tokens) == 4
    assert measured.rates() == [0.25, 1.5]
    measured.forget()
    now = iter([20, 20])
    assert stretch(other) == 3
    assert measured.rates()[0] == 1 / 3  # only a compiling stretch is left


def test_rates_of_before_count_where_nothing_has_been_measured():
    assert Throughput([2.0, 9.0]).rates() == [2.0, 9.0]
    assert Throughput().rates() == ()
