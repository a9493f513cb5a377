"""The options of an experiment: frozen dataclasses, from which command-line flags are generated.

The dataclasses do not check their values: `config.experiment` makes one from options by name, and
checks them.
"""

import dataclasses
from dataclasses import dataclass

from attn_jax.config.data import Data
from attn_jax.config.model import Model
from attn_jax.config.train import Train
from attn_jax.settings.fields import option


@dataclass(frozen=True)
class Experiment:
    """Everything that determines what a run computes, and its label."""

    label: str = option("", "what tables call the system; what it differs in when empty")
    seed: int = option(0, "seed of parameters, dropout and the order of batches", low=0)
    data: Data = dataclasses.field(default_factory=Data)
    model: Model = dataclasses.field(default_factory=Model)
    train: Train = dataclasses.field(default_factory=Train)


# Options that say where data are stored, as opposed to what they are.
PLACES = tuple(f"data.{name}" for name in ("train", "valid", "test", "links", "directory"))

# Options that may change once a run has been trained: they do not change what was learnt.
MAY_CHANGE = {
    "label",
    *(f"train.{name}" for name in ("steps", "valid_every", "keep", "skip", "patience")),
    *(f"train.{name}" for name in ("save_every", "grace")),
    *PLACES,
}

# Options of which a run may get other values from the step done on, as its folder then records. A
# new optimizer, not another setting of the same one, begins with new moments and a new warm-up;
# batches go on by the number of steps done, in the order for their size.
CHANGEABLE = tuple(
    f"train.{name}"
    for name in ("learning_rate", "schedule", "warmup_steps", "batch_size", "optimizer")
)
