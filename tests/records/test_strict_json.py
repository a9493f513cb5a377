"""JSON that every program reads."""

import json
import math

import pytest

from attn_jax.records import strict_json


def test_what_is_not_finite_is_null_and_read_as_infinity():
    value = {"a": math.inf, "b": [-math.inf, {"c": math.nan}], "d": (1.5, 2), "e": None, "f": True}
    text = strict_json.dumps(value)
    plain = json.loads(text, parse_constant=pytest.fail)
    assert plain == {"a": None, "b": [None, {"c": None}], "d": [1.5, 2], "e": None, "f": True}
    assert strict_json.loads('{"a": null, "b": {"c": null}}') == {
        "a": math.inf,
        "b": {"c": math.inf},
    }


def test_a_file_of_an_earlier_version_is_read():
    assert strict_json.loads('{"valid_perplexity": Infinity}') == {"valid_perplexity": math.inf}
