"""The help of each option names all values that it may have."""

import re

import pytest

from attn_jax.attention.catalogue import (
    GATES,
    MIXING,
    NORMALIZERS,
    SCORES,
    SOURCES,
    VALUES,
    WINDOWS,
)
from attn_jax.config import Experiment
from attn_jax.data.datasets import NAMES
from attn_jax.data.run_vocabularies import VOCABULARIES
from attn_jax.data.vocabulary import LEVELS
from attn_jax.evaluation.metrics import METRICS
from attn_jax.models.blocks import POSITIONS, RESIDUALS
from attn_jax.models.choices import DECODERS, ENCODERS
from attn_jax.models.dropout import DROPOUTS
from attn_jax.models.embeddings import EMBEDDINGS
from attn_jax.models.heads import PROJECTIONS
from attn_jax.models.initializations import INITIALIZATIONS
from attn_jax.models.readouts import READOUTS
from attn_jax.models.recurrent import CELLS
from attn_jax.models.stacks import FIRST_STATES, STACKS
from attn_jax.recipe.loss import UNITS
from attn_jax.recipe.losses import LOSSES
from attn_jax.recipe.optimizer import OPTIMIZERS, SCHEDULES
from attn_jax.recipe.orders import ORDERS
from attn_jax.recipe.precision import PRECISIONS
from attn_jax.settings.fields import fields

TABLES = {
    "data.name": NAMES,
    "data.source_level": LEVELS,
    "data.target_level": LEVELS,
    "data.vocabulary": VOCABULARIES,
    "model.encoder": ENCODERS,
    "model.cell": CELLS,
    "model.decoder": DECODERS,
    "model.first_state": FIRST_STATES,
    "model.readout": READOUTS,
    "model.score": SCORES,
    "model.window": WINDOWS,
    "model.normalizer": NORMALIZERS,
    "model.values": VALUES,
    "model.gate": GATES,
    "model.mixing": MIXING,
    "model.sources": SOURCES,
    "model.projection": PROJECTIONS,
    "model.stack": STACKS,
    "model.norm": RESIDUALS,
    "model.positions": POSITIONS,
    "model.embeddings": EMBEDDINGS,
    "model.initialization": INITIALIZATIONS,
    "model.dropout_kind": DROPOUTS,
    "train.optimizer": OPTIMIZERS,
    "train.schedule": SCHEDULES,
    "train.losses": LOSSES,
    "train.mean_over": UNITS,
    "train.compute": PRECISIONS,
    "train.order": ORDERS,
    "train.metric": METRICS,
}


@pytest.mark.parametrize("option", TABLES)
def test_help_names_all_values(option):
    help = dict(fields(Experiment))[option].metadata["help"]
    assert set(TABLES[option]) <= set(re.findall(r"\w+", help))
