"""Encoder-decoder attention in JAX: compare, train, inspect and use it."""

from attn_jax.attention.context import attend
from attn_jax.attention.normalizers import CONTROLS, NORMALIZERS
from attn_jax.attention.scores import SCORES, score
from attn_jax.errors import InputError
from attn_jax.translator import Hypothesis, Translator, load

__all__ = [
    "CONTROLS",
    "NORMALIZERS",
    "SCORES",
    "Hypothesis",
    "InputError",
    "Translator",
    "attend",
    "load",
    "score",
]
