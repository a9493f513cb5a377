"""What a sweep says of its runs."""

import pytest

from attn_jax.runs import working


@pytest.mark.parametrize(
    ("status", "lines", "reason"),
    [
        (2, ["step 20: loss 1.0", "error: a.de is empty"], "a.de is empty"),
        (-9, ["step 20: loss 1.0"], "ended by SIGKILL"),
        (1, ["Traceback", "KeyError: 3", "-----", "For simplicity, JAX has"], "KeyError: 3"),
        (1, ["said"], "said"),
        (1, [], "status 1"),
    ],
)
def test_the_reason_of_a_failure_is_what_was_said_last(status, lines, reason):
    assert working.reason_of(status, lines) == reason
