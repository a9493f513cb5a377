"""Options as the command line takes them, for tests."""

from attn_jax import config
from attn_jax.config import Experiment, Model, Train


def model_options(**options) -> Model:
    """The options of a model from text and numbers: `model_options(score="additive(units=3)")`."""
    return with_model(**options).model


def with_model(**options) -> Experiment:
    """An experiment with options of the model, likewise."""
    return config.experiment({f"model.{name}": value for name, value in options.items()})


def train_options(**options) -> Train:
    """The options of training from text and numbers: `train_options(optimizer="sgd")`."""
    return config.train_of({f"train.{name}": value for name, value in options.items()})
