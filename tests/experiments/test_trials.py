"""Trials that are drawn at random: the same ones, and as many, for every system."""

import numpy as np
import pytest

from attn_jax.errors import InputError
from attn_jax.runs.tuning import FRESH, Trials

SPACE = {
    "train.learning_rate": "log(1e-4,1e-2)",
    "model.dropout": "choice(0,0.1,0.3)",
    "model.hidden_size": "log(16,256)",
    "train.label_smoothing": "uniform(0,0.2)",
    "model.score": "choice(additive(units=8),dot)",
}


def test_values_are_spread_over_their_ranges():
    drawn = Trials(2000, SPACE).drawn(seed=0)
    rates, smoothing, sizes = (
        np.array([trial[name] for trial in drawn], float)
        for name in ("train.learning_rate", "train.label_smoothing", "model.hidden_size")
    )
    for values, low, middle, high in [
        (rates, 1e-4, 1e-3, 1e-2),
        (smoothing, 0, 0.1, 0.2),
        (sizes, 16, 64, 256),
    ]:
        assert low <= values.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < values.max() <= high
        assert 0.46 < (values < middle).mean() < 0.54
    assert {type(trial["model.hidden_size"]) for trial in drawn} == {int}
    for name, values in {
        "model.dropout": ["0", "0.1", "0.3"],
        "model.score": ["additive(units=8)", "dot"],
    }.items():
        shares = [np.mean([trial[name] == value for trial in drawn]) for value in values]
        np.testing.assert_allclose(shares, 1 / len(values), atol=0.04)


def test_draws_depend_on_the_seed_alone_and_more_of_them_keep_the_first():
    few, many = (Trials(number, SPACE).drawn(seed=3) for number in (5, 20))
    assert many[:5] == few
    assert Trials(5, SPACE).drawn(seed=4) != few
    assert [trial["seed"] for trial in many] == list(range(FRESH + 3, FRESH + 23))


def test_settings_and_seeds_of_trials_differ():
    drawn = Trials(50, {"train.learning_rate": "log(1e-4,1e-2)"}).drawn(seed=0)
    assert len({trial["train.learning_rate"] for trial in drawn}) > 45
    assert len({trial["seed"] for trial in drawn}) == 50


@pytest.mark.parametrize(
    ("space", "why"),
    [
        ({"train.learning_rate": "log(0,1)"}, "its numbers must be above 0"),
        ({"train.learning_rate": "log(1)"}, "it takes two numbers"),
        ({"train.learning_rate": "uniform(1,0.5)"}, "its first number must be below its second"),
        ({"train.learning_rate": "normal(0,1)"}, "unknown range 'normal'"),
        ({"train.learning_rate": "log(low=1,high=2)"}, "it takes two numbers"),
        ({"train.learning_rate": "0.1"}, "is no range"),
        ({"train.learning_rate": "choice()"}, "is no range"),
        ({"train.learning_rate": [1, 2]}, "[1, 2] is no range"),
        ({"train.losses": "choice(guided+covrage,none)"}, "did you mean coverage"),
        ({"train.learning_rte": "log(1,2)"}, "did you mean train.learning_rate"),
        ({"model.dropout": "uniform(0.5,1.05)"}, "model.dropout must be at most"),
        ({"model.score": "choice(additive,dto)"}, "did you mean dot"),
        ({"seed": "choice(1,2)"}, "each trial has its own seed"),
        ({"train.metric": "choice(perplexity,bleu)"}, "it is the same for all trials"),
        ({"train.steps": "uniform(10,20)"}, "it is the same for all trials"),
        ({"data.held_out": "uniform(10,20)"}, "all trials have the same sentence pairs"),
        ({}, "nothing is searched"),
    ],
)
def test_a_range_that_cannot_be_drawn_from_is_refused(space, why):
    with pytest.raises(InputError) as raised:
        Trials(3, space)
    assert why in str(raised.value)


def test_losses_that_are_joined_may_be_searched():
    drawn = Trials(30, {"train.losses": "choice(guided(weight=0.5)+coverage, entropy)"}).drawn(0)
    assert {trial["train.losses"] for trial in drawn} == {"guided(weight=0.5)+coverage", "entropy"}


def test_the_number_of_subwords_may_be_searched():
    (drawn,) = Trials(1, {"data.subwords": "choice(500,500)"}).drawn(seed=0)
    assert drawn["data.subwords"] == "500"


def test_there_is_a_trial_and_a_run():
    for number, seeds in [(0, 1), (1, 0), (1, FRESH + 1), (None, 1)]:
        with pytest.raises(InputError, match=r"search\.trials must be 1 or more"):
            Trials(number, SPACE, seeds)
