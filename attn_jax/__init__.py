"""Encoder-decoder attention in JAX: compare, train, inspect and use it."""

from attn_jax.attention.attend import Sentence, attend, attend_all, attend_step, begin
from attn_jax.attention.catalogue import NORMALIZERS, SCORES, WINDOWS
from attn_jax.attention.mechanism import Mechanism
from attn_jax.attention.protocol import Normalizer, Part, Past, Score, Window, scaled_normal
from attn_jax.attention.steps import Memory
from attn_jax.checks.mechanisms import check
from attn_jax.errors import InputError
from attn_jax.exporting import export, load_exported
from attn_jax.loading import load
from attn_jax.settings import inner, setting
from attn_jax.translator import Hypothesis, Translator
from attn_jax.version import __version__

__all__ = [
    "NORMALIZERS",
    "SCORES",
    "WINDOWS",
    "Hypothesis",
    "InputError",
    "Mechanism",
    "Memory",
    "Normalizer",
    "Part",
    "Past",
    "Score",
    "Sentence",
    "Translator",
    "Window",
    "__version__",
    "attend",
    "attend_all",
    "attend_step",
    "begin",
    "check",
    "export",
    "inner",
    "load",
    "load_exported",
    "scaled_normal",
    "setting",
]
