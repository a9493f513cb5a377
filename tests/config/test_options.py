"""Options: their conversion to lines and back, and their bounds."""

import dataclasses
import functools
import typing

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_jax import config
from attn_jax.attention.compositions import Projected
from attn_jax.attention.scores import Additive
from attn_jax.attention.sparse_normalizers import Entmax
from attn_jax.errors import InputError


@given(
    seed=st.integers(0, 2**31 - 1),
    rate=st.floats(1e-9, 10),
    units=st.integers(1, 1000),
    alpha=st.floats(1.01, 2),
    name=st.text(min_size=1).filter(lambda text: text.isprintable() and text == text.strip()),
)
def test_lines_round_trip(seed, rate, units, alpha, name):
    options = {
        "seed": seed,
        "train.learning_rate": rate,
        "model.score": Projected(Additive(units=units), units=seed % 7 + 1),
        "model.normalizer": Entmax(alpha=alpha),
        "label": name,
    }
    experiment = config.experiment(options)
    assert config.parse(config.lines(experiment)) == experiment
    assert config.experiment(config.texts(options)) == experiment
    assert {key: config.values(experiment)[key] for key in options} == options


def test_every_option_has_help_and_a_default_of_its_type():
    for name, field in config.known().items():
        assert field.metadata["help"], name
        is_tuple = typing.get_origin(field.type) is tuple
        assert isinstance(field.default, tuple if is_tuple else field.type), name


def test_experiments_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.Experiment().seed = 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train.steps": 0}, "train.steps must be at least 1, got 0"),
        ({"model.dropout": 1.0}, "model.dropout must be at most 0.95, got 1.0"),
        ({"model.dropout": float("nan")}, "model.dropout must be at least 0, got nan"),
        ({"train.clip_norm": float("inf")}, "train.clip_norm must be a finite number, got inf"),
        ({"seed": 2**31}, "seed must be at most 2147483647, got 2147483648"),
        ({"label": "two\nlines"}, r"label must be a single line of text, got 'two\\nlines'"),
        ({"label": "one\u2028two"}, "label must be a single line of text"),
        ({"label": None}, "label must be of type str, got None"),
        ({"data.train": None}, "data.train must be of type str, got None"),
        ({"model.heads": True}, "model.heads must be of type int, got True"),
        ({"label": "\udcff"}, "label must be a single line of text"),
        ({"train.steps": "many"}, "train.steps must be of type int, got 'many'"),
        ({"model.score": "additive(units=0)"}, "additive: units must be at least 1, got 0"),
        ({"model.score": "additive(unit=3)"}, r"unknown setting of additive 'unit'.*units"),
        ({"model.score": "softmax"}, "unknown score 'softmax'"),
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


def test_a_function_without_a_name_is_refused():
    with pytest.raises(InputError, match=r"model.score has no name by which a run could record it"):
        config.given(
            {"model.score": functools.partial(lambda query, keys, scale: keys @ query, scale=2)}
        )


@pytest.mark.parametrize("options", [None, [("seed", 1)], "seed=1"])
def test_options_are_a_dictionary_or_an_experiment(options):
    with pytest.raises(InputError, match=r"^options are a dictionary, such as"):
        config.given(options)


def test_parts_are_told_briefly():
    for text, brief in {
        "additive(units=128)": "additive",
        "additive(units=64)": "additive(units=64)",
        "projected(additive(units=128),units=5)": "projected(additive,units=5)",
        "mine:Similar(sharpness=10.0)": "mine:Similar(sharpness=10.0)",
    }.items():
        assert config.brief(config.given({"model.score": text})["model.score"]) == brief
    assert config.brief(None) == "auto"
    assert config.brief(5) == "5"


def test_numbers_of_numpy_and_blanks_around_text_are_given_as_a_flag_file_has_them():
    options = {"seed": np.int64(3), "train.learning_rate": jnp.float32(0.5), "label": " a "}
    found = config.given(options)
    assert found == {"seed": 3, "train.learning_rate": 0.5, "label": "a"}
    assert [type(value) for value in found.values()] == [int, float, str]
