"""Small runs that faults happen to, and what two of them do not have in common."""

from pathlib import Path
from typing import Any

import numpy as np

from attn_jax.records import journal, run_files
from attn_jax.training.checkpoints import named_leaves
from attn_jax.training.validations import RATES
from attn_jax.translation.loading import load

TIMED = ("seconds", *RATES)  # of the journal

OPTIONS = {
    "data.name": "reverse",
    "data.examples": 300,
    "data.held_out": 20,
    "data.longest": 6,
    "model.embedding_size": 8,
    "model.annotation_size": 8,
    "model.hidden_size": 8,
    "model.dropout": 0.2,
    "train.steps": 300,
    "train.valid_every": 50,
    "train.save_every": "0.3s",
    "train.buckets": 2,
    "train.batch_size": 16,
}
GRU = {"model.score": "additive(units=8)", "model.readout_size": 8}


def differences(one: Path, other: Path) -> list[str]:
    """What two finished runs do not have in common, bit for bit."""
    found = [
        f"{which} checkpoint"
        for which in ("best", "last")
        if parameters(one, which) != parameters(other, which)
    ]
    if untimed(one) != untimed(other):
        found.append("journal")
    if run_files.predictions(one, "test").read_bytes() != (
        run_files.predictions(other, "test").read_bytes()
    ):
        found.append("predictions")
    return found


def parameters(run: Path, which: str) -> dict[str, bytes]:
    """The parameters of a checkpoint of a run, by their names."""
    (model,) = load(run, which).models
    return {name: np.asarray(leaf).tobytes() for name, leaf in named_leaves(model).items()}


def untimed(run: Path) -> list[dict[str, Any]]:
    """The journal of a run without what depends on the clock."""
    return [
        {name: value for name, value in line.items() if name not in TIMED}
        for line in journal.read(run)
    ]
