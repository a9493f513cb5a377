"""Options as the command line takes them, for tests."""

import dataclasses

from attn_jax import config
from attn_jax.config import Experiment, Model, Train
from attn_jax.settings.value import Value


def model_options(**options) -> Model:
    """The options of a model from text and numbers: `model_options(score="additive(units=3)")`.

    `units` are the hidden units of all parts that do not give their own.
    """
    return with_model(**options).model


def with_model(*, units: int = 128, **options) -> Experiment:
    """An experiment with options of the model, likewise."""
    made = config.experiment({f"model.{name}": value for name, value in options.items()})
    parts = ("score", "window", "normalizer")
    given = {name: with_units(getattr(made.model, name), units) for name in parts}
    return dataclasses.replace(made, model=dataclasses.replace(made.model, **given))


def with_units(value, units):
    """A value, with these units for 128, the default, in it and in those that it holds."""
    if not isinstance(value, Value):
        return value
    given = {name: with_units(one, units) for name, one in value.settings().items()}
    if given.get("units") == 128:
        given["units"] = units
    return dataclasses.replace(value, **given)


def train_options(**options) -> Train:
    """The options of training from text and numbers: `train_options(optimizer="sgd")`."""
    return config.train_of({f"train.{name}": value for name, value in options.items()})
