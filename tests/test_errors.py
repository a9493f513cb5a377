"""Errors as they are told to users."""

import pytest

from attn_jax.errors import reason


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(), "ValueError"),
        (TypeError("no\nmore"), "TypeError: no"),
        (TypeError("they differ:\n\nint32\nmore"), "TypeError: they differ: int32"),
        (ValueError("nothing follows:"), "ValueError: nothing follows:"),
        (ValueError("long " * 80), "ValueError: " + "long " * 57 + "…"),
    ],
)
def test_a_reason_is_the_first_line_and_what_its_colon_announces(error, told):
    assert reason(error) == told
