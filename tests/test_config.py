"""Options: their conversion to lines and back, and their bounds."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax import config
from attn_jax.errors import InputError
from attn_jax.options import fields


@given(
    seed=st.integers(0, 2**31 - 1),
    rate=st.floats(1e-9, 10),
    score=st.text("abc:_", min_size=1),
    name=st.text(min_size=1).filter(str.isprintable),
)
def test_lines_round_trip(seed, rate, score, name):
    options = {
        "seed": seed,
        "train.learning_rate": rate,
        "model.score": score,
        "data.train": name,
    }
    experiment = config.experiment(options)
    assert config.parse(config.lines(experiment)) == experiment
    assert {key: config.values(experiment)[key] for key in options} == options


def test_every_option_has_help_and_a_default_of_its_type():
    for name, field in fields(config.Experiment):
        assert field.metadata["help"], name
        assert isinstance(field.default, field.type), name


def test_experiments_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.Experiment().seed = 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train.steps": 0}, "--train.steps must be at least 1, got 0"),
        ({"model.dropout": 1.0}, "--model.dropout must be at most 0.95, got 1.0"),
        ({"model.dropout": float("nan")}, "--model.dropout must be at least 0, got nan"),
        ({"train.clip_norm": float("inf")}, "--train.clip_norm must be a finite number, got inf"),
        ({"seed": 2**31}, "--seed must be at most 2147483647, got 2147483648"),
        ({"label": "two\nlines"}, r"--label must be a single line of text, got 'two\\nlines'"),
        ({"label": "one\u2028two"}, "--label must be a single line of text"),
        ({"label": "line\n"}, "--label must be a single line of text"),
        ({"label": "\udcff"}, "--label must be a single line of text"),
        ({"train.steps": "many"}, "--train.steps must be of type int, got 'many'"),
        ({"train.stepz": 3}, r"unknown option 'train.stepz' \(did you mean train.steps\?\)"),
    ],
)
def test_refuses_values_out_of_bounds(options, message):
    with pytest.raises(InputError, match=message):
        config.experiment(options)


def test_an_emptied_file_is_no_run_with_default_options(tmp_path):
    file = tmp_path / "flags.txt"
    file.write_text("\n")
    with pytest.raises(InputError, match=r"flags\.txt cannot be used: it is empty"):
        config.read(file)
