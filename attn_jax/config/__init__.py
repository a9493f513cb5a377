"""The options of an experiment: what they are, as values and as text, and in flag files."""

from attn_jax.config.data import LINKED_LEVELS, Data
from attn_jax.config.definitions import CHANGEABLE, MAY_CHANGE, PLACES, Experiment
from attn_jax.config.flag_file import lines, parse, read, recorded, stated
from attn_jax.config.model import Model
from attn_jax.config.options import (
    HELD,
    TABLES,
    Options,
    differing,
    experiment,
    given,
    known,
    texts,
    told,
    train_of,
    values,
)
from attn_jax.config.reading import brief, text_of
from attn_jax.config.train import Train
